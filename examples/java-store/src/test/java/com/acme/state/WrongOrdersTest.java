package com.acme.state;

import org.junit.jupiter.api.Tag;
import streamproof.junit.StreamproofTest;

/** What a failure looks like: {@code mvn test -Pwrong}. One promise is enough to show it. */
@Tag("wrong")
class WrongOrdersTest extends StreamproofTest {
  WrongOrdersTest() {
    super(
        "com.acme.state.MvStores#ordersWithOffsetsApart",
        "--guarantee", "at-least-once", "--spec", "kafka-4.3", "--only", "CRASH-011", "--no-bank");
  }
}
