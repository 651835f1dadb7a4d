// Package etcdkv lets Tenure use etcd v3.
//
//	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: tls})
//	...
//	defer client.Close()
//	store := etcdkv.New(client)
//	defer store.Close()
//
// The client is the caller's: endpoints, TLS, user and password, keepalive, logger and
// metrics are set there and stay so. Set DialKeepAliveTime (10 s: grpc
// raises less to that) and DialKeepAliveTimeout (3 s): without them a connection whose packets are dropped silently is noticed
// late. A client that was wrapped by etcd's package namespace is used without the wrapping;
// a group's Prefix does the same job.
//
// # What a request does when etcd is away
//
// Every request ends with its context, and says what went wrong before. A write that finds the
// connection refused or broken fails at once with cas.ErrUnavailable; one that finds a
// connection being made waits for it, as long as its context lasts, and then fails in the
// same way. Either was not sent. A write is sent at most once, also where the client's own
// retries would send it again; one whose answer is lost is cas.ErrUncertain. Reads are repeated by the client for some seconds and then fail
// with cas.ErrUnavailable. A watch may be started before etcd can be reached, and lives
// through lost connections: it is silent meanwhile and then goes on where it was.
//
// Writes, reads, renewals and watches all demand a leader, so a member that is cut off from
// its cluster answers cas.ErrNoLeader (once it has noticed) instead of what it last knew.
//
// A user that only the group's keys are granted to needs read and write on the prefix:
// a transaction reads the keys that it compares.
//
// # Versions
//
// etcd below 3.5.23 and 3.6.0 to 3.6.4 have known faults in leases; [Store.Advice] tells.
package etcdkv
