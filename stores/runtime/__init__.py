"""The runtime's side of a store: the layers that Kafka Streams puts around the stores of a task."""
