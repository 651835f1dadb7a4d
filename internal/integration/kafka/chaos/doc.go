// Command chaos consumes with real processes, kills, stops and cuts them off, and checks that each record had its effect once.
//
//	go run ./kafka/chaos -for 10m
//
// Three processes, each with two nodes: one consumes a topic into a SQL database, under its fence, the other into a changelog. A producer numbers the records of
// each key. Meanwhile a nemesis kills processes (SIGKILL) and starts others, stops them (SIGSTOP) for longer than their leases last and lets them go
// on, has them leave, cuts them off from etcd or from Kafka for a while, and, where there are three brokers that ".ci/kafka" has started, kills the brokers one by one.
//
// In the end the database must have of each key the sum and the number of what was produced, with nothing twice, missing or out of order; and the changelog's
// state must be what a serial replay of the topic gives. With -no-fence the database's consumer does without: then harm must be found, or the run
// proves nothing.
//
// etcd runs in this process. Kafka is the one that TENURE_TEST_KAFKA names, or kfake in this process. The database is the Postgres that TENURE_TEST_POSTGRES
// names, or SQLite, which a process that is stopped inside a transaction holds up for all.
//
// Exit status: 0 all is well, 1 something was lost, doubled or out of order, 2 the run could not be done.
package main
