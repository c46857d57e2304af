package com.acme.state;

import java.io.File;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;

/**
 * The same store with a mistake that is easy to make: a commit writes the offsets alone, into a
 * file of their own. MVStore writes the rows in the background, once a second.
 *
 * <p>That makes commits fast, and nothing is lost as long as the process lives. A process that is
 * killed leaves offsets for rows that are missing. Kafka Streams trusts the offsets, so it never
 * restores these rows.
 */
final class OffsetsApartStore extends MvKeyValueStore {
  private MVStore offsetsFile;
  private MVMap<String, Long> offsets;

  OffsetsApartStore(String name) {
    super(name);
  }

  @Override
  public void init(StateStoreContext context, StateStore root) {
    offsetsFile =
        MvFiles.open(context.stateDir(), name() + "-offsets", MVStore.Builder::autoCommitDisabled);
    offsets = offsetsFile.openMap("offsets");
    super.init(context, root);
  }

  @Override
  MVStore openFile(File stateDir) {
    return MvFiles.open(stateDir, name(), UnaryOperator.identity());
  }

  @Override
  public void commit(Map<TopicPartition, Long> changelogOffsets) {
    requireOpen();
    stage(changelogOffsets, offsets);
    offsetsFile.commit();
    offsetsFile.sync();
  }

  @Override
  public Long committedOffset(TopicPartition partition) {
    requireOpen();
    return offsets.get(partition.toString());
  }

  @Override
  public void close() {
    if (isOpen()) {
      super.commit(Map.of());
      super.close();
      offsetsFile.close();
    }
  }
}
