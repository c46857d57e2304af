"""The runtime's side of a store: what Kafka Streams puts around and beside the stores of a task."""
