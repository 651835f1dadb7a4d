// Package memkv is a store in memory, with etcd's semantics and with faults on demand.
//
// [New] gives a [cas.Store] in one call:
//
//	store := memkv.New()
//
// A [Server] holds the data; each [Client] is one node's connection to it, with faults of
// its own. A test of several nodes makes one server and gives each node a client:
//
//	server := memkv.NewServer(memkv.Config{})
//	a, b := server.Client(), server.Client()
//	a.Cut(true) // b goes on
//
// What holds of etcd holds here: one revision for all changes of a transaction, leases that
// expire on their own and take their keys along in one revision, a put that names no lease
// detaches the key, watches that can start in the past, compaction, limits on the number of
// operations and on the size of a request. The conformance suite that etcdkv passes runs
// against this package too.
//
// What a client can be made to suffer:
//
//   - a slow request or reply, a request or a reply lost, a refused connection: [Client.Intercept]
//   - a partition, in which requests hang and watches fall silent: [Client.Cut]
//   - a watch that misses events (etcd#18089) or breaks: [Client.Withhold], [Client.Break]
//   - a clock that is fast, slow or stands still: [Client.SetClock]
//
// and a server:
//
//   - a lease that ends early: [Server.Expire]
//   - history thrown away: [Server.Compact]
//   - no space left: [Server.SetFull]
//   - a restore from a backup: [Server.Backup], [Server.Restore]
//
// Time comes from package time alone, so inside a testing/synctest bubble everything here
// runs on virtual time. Make the server inside the bubble. A server has no goroutine; a
// client has one for each watch, and none after Close.
package memkv
