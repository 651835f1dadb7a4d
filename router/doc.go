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
//	                                  reached, or too many wait; has Retry-After
//
// An answer that has begun when the owner's connection breaks can't be taken back: the connection to the
// client is cut too, as any proxy does.
//
// # Headers between nodes
//
// Names that begin with Tenure- belong to this library. They are removed from what clients send, apart from the
// Tenure-Token of fence.SetHeader, which goes to the handler; of those in answers clients see Tenure-Outcome
// alone. A node believes what such headers say of the hop if HTTPConfig.Peer believes the sender: set it where
// clients reach nodes directly.
//
// A hop carries the random ID of the sender's group, as the config in the store has it, and a node refuses
// the hops of any other. So an address that was a node's of another cluster a moment ago, as happens
// to pods, gets no request of this one served, even if both have groups of the same name.
package router
