package com.acme.state;

import streamproof.junit.StreamproofTest;

/** The store keeps what Kafka 4.3 asks of a store. */
class OrdersTest extends StreamproofTest {
  OrdersTest() {
    super("com.acme.state.MvStores#orders", "--guarantee", "at-least-once", "--spec", "kafka-4.3");
  }
}
