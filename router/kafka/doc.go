// Package kafka consumes partition i of a topic as the owner of shard i, and keeps a shard's state in a topic.
//
// Requests and records for a key then meet in one process, under one epoch: the router brings requests to the owner of their key's
// shard, and the owner consumes the partition that the key's records are in. Position and effect are stored together, behind one fence, so each record
// has its effect once, whatever dies, is paused or comes back.
//
//	open := func(ctx context.Context, t *owner.Tenure) (kafka.Partition, error) {
//		if err := fences.Seal(ctx, t.Token()); err != nil {
//			return kafka.Partition{}, err
//		}
//		stream := kafka.Stream(ctx) // the topic's name and id
//		from, err := fences.Position(ctx, t.Token(), stream)
//		process := func(ctx context.Context, recs []*kgo.Record) error {
//			return fences.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
//				for _, r := range recs {
//					if err := applyOrder(ctx, tx, r); err != nil {
//						return err
//					}
//				}
//				return fences.Advance(ctx, tx, t.Token(), stream, kafka.Next(recs))
//			})
//		}
//		advance := func(ctx context.Context, next int64) error { // the position alone: for Seek, and past a record that was put away
//			return fences.Tx(ctx, t.Token(), func(tx *sql.Tx) error {
//				return fences.Advance(ctx, tx, t.Token(), stream, next)
//			})
//		}
//		return kafka.Partition{From: from, Process: process, Advance: advance}, err
//	}
//	orders, err := kafka.NewConsumer(ctx, Orders, "orders", open, kafka.ConsumerConfig{Client: brokers, DeadLetter: "orders.dead"})
//	...
//	node, err := owner.New(store, Orders, orders.Serve, owner.Config{Address: addr})
//
// Producers use Partitioner, so that a record lies where its key's owner reads; with shard.Murmur2 as the group's hash, Kafka's own Java
// producers do that by themselves.
//
// # What decides who consumes
//
// The group's owners do, and no Kafka consumer group. There is no rebalance: a shard that moves leaves the others alone, and the next owner
// begins as soon as the one before has finished its batch. Adding a partition to a client takes part in its next fetch, which is why idle fetches last
// 20 ms here. Nothing tells an owner that has been replaced to stop; its contexts end, and if it doesn't run to notice, the fence refuses what it writes.
//
// # Where the position is
//
//	effects in               position in                                      each record has its effect
//	a SQL database           its fence: SQL.Position and Advance, in the      once
//	                         transaction of the effects
//	memory, and a Changelog  the batch that is appended: Changelog.Append     once
//	the coordination store   OnStore, or a commit of yours with               at least once; once if both are
//	                         Tenure.Guard                                     in the same commit
//	anything else            OnStore                                          at least once: give the effect an id, or idem/kafkaidem
//
// LagGroup mirrors positions to a Kafka consumer group, so that tools that know groups can tell the lag. It is never read: a position that is not stored
// with the effect is a guess.
//
// # What Process's error means
//
//	error                                                      the batch            the tenure
//	not applied: of a fence's Tx whose function failed,        tried again whole,   goes on
//	or marked by NotApplied                                    once; then in halves
//	Bad                                                        what is before the   goes on
//	                                                           record is processed,
//	                                                           the record put away
//	fenced, not sealed, position passed, another group's,      another owner's      ends
//	Guard's conflict, ErrRestore
//	any other, or a panic: it may have been applied            the next tenure is   ends
//	                                                           told, by its position
//
// Split down, the bad record stands alone in the end. It gets ConsumerConfig.Tries, with growing back-off, and then goes to the dead-letter topic, with
// headers that say where it was, why, how often it was tried, and under which epoch. A batch that ended a tenure without having been applied is remembered in
// the process, so that a record on which Process panics does not stop a shard for ever. That takes minutes (2½ with the defaults), in which the
// shard serves nothing and is in neither Stopped nor Lag; Hooks.Batch is told, and the node's log. So recover in Process: around what
// applies one record, within the transaction, and return Bad; or NotApplied, if certainly nothing was.
//
// A database that is down makes every record fail, and is no reason to put a topic away. So a record is given up on only if something has succeeded in
// this process since the trouble began, or after a minute; and after three in a row the shard stops instead. Bad is the way to say that it is
// certainly the record.
//
// A shard that stops stands still at its position: requests are served, nothing is skipped, the shard is tried again every 30 s, and Stopped, Hooks.Stopped and the
// log say why. So it is with a log that has lost what was not consumed (*OffsetError), a topic that was deleted and made anew
// (*RecreatedError), a right that was taken away (*TopicError), and with a bad record if there is no dead-letter topic. Seek takes a shard past it.
//
// A log may also lose its end, when a replica that lags is made leader (unclean.leader.election.enable) or the brokers' disks are restored from a copy. New
// records then take offsets that were consumed. A shard whose position the log doesn't reach stands still and stays so when the log has grown past it,
// until Seek to where it stands says that what is new before that is to be left out. To have those records consumed instead, give that one shard's stream another
// name in Open, with the log's end of then as its position. What was seen is remembered in the process, and for
// the shard's next tenure there. Another process that gets the shard once the log has grown past the position, one that is restarted, and a tenure after a
// forced one can't tell either: a position has no leader's epoch. So decide before the shard moves.
//
// A record whose key is not of the shard, or that has none, is bad: somebody produces without Partitioner, or with another hash. AnyKey lets it pass.
//
// # The number of partitions
//
// A topic must have exactly as many partitions as the group has shards. Kafka lets people add some later: then keys of other producers move, and order with them. NewConsumer
// refuses such a topic, a running one says so (Err) and consumes on what lies right, and Partitioner fails its records. The way to go: create a topic with the
// group's number and copy the records there by key, or stop all nodes, Reset the group, and rebuild what is laid out by shard.
//
// # State in a topic
//
// A Changelog keeps a shard's state in partition i of a topic: Restore rebuilds it, Append adds a batch together with the input position that it comes
// from.
//
//	from, err := changes.Restore(ctx, t.Token(), book.restore)
//	process := func(ctx context.Context, recs []*kgo.Record) error {
//		out := book.plan(recs) // pure: what would change
//		if err := changes.Append(ctx, t.Token(), kafka.Next(recs), out...); err != nil {
//			return err
//		}
//		book.apply(out)
//		return nil
//	}
//	advance := func(ctx context.Context, next int64) error { return changes.Append(ctx, t.Token(), next) }
//	return kafka.Partition{From: from, Process: process, Advance: advance}, err
//
// No broker fences a log by Tenure's epochs, and Kafka's own fence won't do: whoever initializes a transactional id last wins, a woken zombie included. So
// the log's order is the fence. Each record carries its owner's epoch, a new owner writes a marker before it reads, and every reader leaves out, in the order
// of the log, what has an epoch below the highest it has seen, and batches that aren't whole: Filter. Append returns nil only
// once it is certain that no newer marker came before the batch's end, so an acknowledged batch counts for every reader.
//
// Such a topic may not be compacted, for a zombie's late record would make the broker drop the rightful one before it; nor may retention delete from
// it. OpenChangelog refuses both. Checkpoints bound what a Restore replays, and Trim the log. Follow reads ahead, for owner.Config.Prepare.
//
// # Which reader sees what
//
// What a shard's owner appends to a Changelog, or produces from Process to another topic:
//
//	                                     read_uncommitted,    read_committed       through Filter
//	                                     any client
//	Changelog.Append                     and zombies' records, the same: there     exactly what rightful
//	                                     and torn batches      are no transactions owners appended, once,
//	                                                                               in whole batches
//	plain produce in Process             at least once, and    the same            -
//	                                     zombies' too
//	kgo transaction that holds the       and zombies' and      each input's        -
//	output and the position              aborted ones          output once
//
// To transform one topic into another exactly once there are two ways. The output is a Changelog, and its consumers go through Filter: one owner at a time, by
// the log's order. Or the output is for consumers of others, who read committed records only: then use kgo's transactions, and keep the position in a
// record of a topic of its own (compacted, as many partitions as shards), which is in the transaction of the output. (kgo commits offsets in a transaction only for
// members of a group.) The transactional id is the shard's, the same for all its owners: with one for each tenure nobody would be fenced. Open does this, in this order:
//
//	client, err := kgo.NewClient(kgo.TransactionalID(fmt.Sprintf("orders-%d", s)), ...) // for this tenure; closed when it ends
//	_, _, err = client.ProducerID(ctx)                  // from here on no older producer commits; what one left open is aborted
//	e, err := store.Get(ctx, t.Guard().Key)             // is the shard still this tenure's? If t.Guard() doesn't hold of e, return an error
//	from, err := ...                                    // the last committed record of the topic of positions: nobody else can add one now
//
// and Process begins a transaction, produces the output and the position, and ends it. Any error of it ends the tenure; a client that was fenced can't
// be used again.
//
// The question in the middle is needed because Kafka goes by who came last: a zombie that was stopped within Open, and wakes, fences the rightful owner, and would
// transform in its place, from state that may be old. Asking after that, it finds out, having produced nothing; the owner's next commit fails, and its next tenure goes on.
// Whoever passes held the shard when its producer had been initialized, so every later owner's comes after it and fences it. State in memory must be read after the
// question too, from what the transactions have committed.
//
// Effects outside of Kafka are in no Kafka transaction. They have their own fence, with the position in it.
//
// # Not here
//
// Joins, windows, repartitioning: this is a consumer and a log, not a stream processor. Repartitioning is producing to another group's topic with its
// Partitioner. Two topics for one group are two Consumers, and Together is the handler that runs both.
package kafka
