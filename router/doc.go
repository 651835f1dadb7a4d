// Package router brings each request to the owner of its key.
//
// A [Table] follows in the background who owns what. Looking a key up costs one hash and one
// atomic load. What it says is a hint: only the gate of the owner decides whether a request is
// admitted, so a table that is late costs a detour and never correctness. While the store is away the
// table serves what it knew last.
//
// [HTTP] wraps the handlers of a server. A request for a key that is owned here runs here, inside
// its tenure; any other goes on to the owner, bodies streamed both ways:
//
//	client ──► node A ──────────────► node B, the owner
//	           asks its own gate,      asks its gate, runs the handler
//	           then its table          or answers 421: "not mine, it is C's, by epoch 1:4812"
//
// There is one hop. A node that a peer forwarded to and that does not own the shard answers 421 with
// what it knows, and the first node tries again, at most Tries times in all. So that two nodes whose views
// differ don't play ball with a request, a forwarded request carries the epoch that the sender believes in,
// and the receiver waits until its own view is as new before it answers.
//
// # What is tried again
//
// Only what was certainly not admitted: a 421 that repeats the random number its attempt was sent
// with (a handler never sees that number, so a 421 of its own passes through as it is),
// and an attempt that never got a connection. All else that fails on the way is reported to the client
// as uncertain, reads included: what a GET does is the handler's affair, not the router's.
//
// http.Transport by itself would send a request again after the connection was reset, although
// the peer may have applied it, if its method is GET, HEAD, OPTIONS or TRACE or if it has an
// Idempotency-Key. It is kept from that: requests to peers never have a GetBody, those four methods get a body
// that is empty but not nil, and the header travels under another name and has its own again
// when the handler sees it.
//
// Bodies of a known length up to HTTPConfig.Replay are held in memory for the next attempt. Longer ones, and those
// of unknown length, go by "Expect: 100-continue", so a node that does not admit the request never
// receives them. Whatever reads the body must therefore stand inside Handler or Route, not around it.
//
// # Keys, and what spans them
//
// A [KeyFunc] says what a request's key is: a part of the path, a header, or what stands before a separator in
// either (KeyFunc.Before), so that all of a tenant's records are of one shard and can be written together.
//
// A question that no key answers, such as a list or a total, goes to all owners by [Gather]: each is asked once for the shards
// that it is believed to own, answers for those that it does own, and says who has the others. The answer accounts for every
// shard: under which epoch it answered, or why it is missing. It is no snapshot.
//
// # Answers of the router itself
//
//	status                            when                                             applied?
//	400 Bad Request                   no key (*KeyError), the body broke off, or       no
//	                                  an upgrade to what is no name of a protocol
//	413 Content Too Large             the body is above a limit set outside            no
//	421 Misdirected Request           only to peers: not the owner; see above          no
//	500, Tenure-Outcome: uncertain    sent to the owner, and no answer came            perhaps
//	500, Tenure-Outcome: applied      an error that says it came after the commit      yes
//	503, Tenure-Outcome: not-applied  nobody owns the shard, or nobody could be        no
//	                                  reached, or too many wait, or not all have
//	                                  answered (*PartialError); has Retry-After
//
// An answer that has begun when the owner's connection breaks can't be taken back: the connection to the
// client is cut too, as any proxy does.
//
// # Headers between nodes
//
// Names that begin with Tenure- belong to this library. They are removed from what clients send, apart from the
// Tenure-Token of fence.SetHeader, which goes to the handler; of those in answers clients see Tenure-Outcome
// alone. A node believes what such headers say of the hop if HTTPConfig.Peer believes the sender: set it where
// clients reach nodes directly, to [PeerByCert] where nodes have certificates.
//
// A hop carries the random ID of the sender's group, as the config in the store has it, and a node refuses
// the hops of any other. So an address that was a node's of another cluster a moment ago, as happens
// to pods, gets no request of this one served, even if both have groups of the same name.
//
// # For operators
//
// [Readyz] and [Livez] are for probes. [Debug] shows this node, its shards with their epochs, what has happened to it, and who
// owns what, as a page and as JSON; keep it off public networks.
//
// # What it costs
//
// A request at its owner pays the gate (a clock reading and one atomic word), two small allocations for its context, and a copy
// of the http.Request: about a microsecond, 1.03 times the bare handler over loopback. A forwarded one costs about
// what a plain httputil.ReverseProxy hop does, and 1.25 times one that is given a pool of buffers, as this one has.
// BenchmarkLocal and BenchmarkForward measure them beside each other.
package router
