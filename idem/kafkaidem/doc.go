// Package kafkaidem makes the effect of a Kafka record happen once where it is in no database: a charge at a third party, a
// mail, a call.
//
// router/kafka stores position and effect together wherever both are in one database. Elsewhere it delivers a record at least
// once: an owner that crashes between the effect and the position leaves the record to the next one. Here each record is an
// operation of package idem, so that the next owner goes on where the first one stopped:
//
//	// in Open, which is given ctx and t
//	positions := kafka.OnStore(store, "/positions", kafka.Stream(ctx)) // the store that the node has
//	from, err := positions.Load(ctx, t)
//	process := func(ctx context.Context, recs []*kgo.Record) error {
//		for _, r := range recs {
//			err := kafkaidem.Do(ctx, engine, t.Token(), r, func(ctx context.Context, op *idem.Op) error {
//				_, err := idem.Step(ctx, op, "charge", func(ctx context.Context, key string) (string, error) {
//					return provider.Charge(ctx, key, r.Value)
//				})
//				return err
//			})
//			if err != nil {
//				return err
//			}
//		}
//		return positions.Save(ctx, t, kafka.Next(recs))
//	}
//	advance := func(ctx context.Context, next int64) error { return positions.Save(ctx, t, next) }
//	return kafka.Partition{From: from, Process: process, Advance: advance}, err
//
// # Which record is which operation
//
//	the record has                 scope and key                                            twice by its producer
//	the header idempotency-key     "kafka-key:" and topic; the header's value               is once
//	none                           "kafka-offset:" and kafka.Stream; partition and offset   is twice
//
// The stream has the topic's id: a topic that is deleted and made anew begins at offset 0 again, and its records are others. A
// record that went to the dead-letter topic and is produced again is the same operation only by its header.
//
// The fingerprint is over the record's key and value. Headers are not in it, since tracing changes them, nor is the partition.
//
// # What becomes of errors
//
// Do returns what Process is to return, and after any error the batch may be tried again: what is done is not done again.
//
//	the operation                                            Do returns
//	is done, now or earlier, its result kept or not          nil
//	has failed for good (idem.Final), now or earlier         kafka.Bad: the record is put away
//	the key was used for another record                      kafka.Bad
//	was interrupted, and Interrupted is idem.Block           kafka.Bad: Settle or Reopen it, then produce it again
//	fn's other errors                                        kafka.NotApplied: tried again, and put away after ConsumerConfig.Tries
//	another try is in progress for longer than Wait          *idem.InProgressError, likewise
//	another try is waited for when a hand-off begins         not applied: its next owner takes over at once
//	Interrupted is idem.Reconcile, whose function fails      kafka.NotApplied: fn has not run, and it is asked again
//	could not be begun: the store can't be reached           likewise
//	a later owner of the shard has run it                    an *owner.LostError: the tenure ends
//	may not have been recorded, or was taken over            *idem.FinishError, *idem.LostError: the tenure ends, and the
//	                                                         next takes over at once, by its epoch
package kafkaidem
