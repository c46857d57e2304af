"""The clients of the brokers: consumer and producer."""
