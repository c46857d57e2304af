"""The checks of Kafka Streams itself, which play worlds with real processes."""
