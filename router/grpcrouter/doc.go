// Package grpcrouter is package router for gRPC: it brings each call to the owner of its key.
//
// A server enters the tenure of a call's key before the handler runs, and sends calls for others' keys on:
//
//	key := grpcrouter.Field("account_id")
//	peers, err := grpcrouter.NewClient(table, key, grpcrouter.Config{})
//	...
//	srv := grpc.NewServer(grpcrouter.Options(node, key, peers)...)
//	pb.RegisterAccountsServer(srv, accounts) // in a method, owner.From(ctx) is the tenure
//	err = router.Serve(ctx, node, router.ServeConfig{}, router.On(":9090", grpcrouter.Wrap(srv)))
//
// A program that has a router.Table (a gateway, another service on the same store) calls owners directly: a [Client] is what
// generated code wants as its connection.
//
//	accounts := pb.NewAccountsClient(peers)
//
// All others dial any node. There is one hop: a node that a peer forwarded to, or that a Client calls, and that does not own
// the shard, refuses and names the owner as far as it knows, and the sender tries again. Such calls carry the epoch that
// the sender believes in, and the receiver waits until its own view is as new before it refuses. They also carry the random ID
// of the sender's group: nodes of another cluster refuse them, whatever address they have inherited.
//
// # What is tried again
//
// Only what was certainly not admitted: a refusal that repeats the random number its attempt was sent with (a
// handler never sees that number, so it can't refuse in the node's name), and a call that never got a connection; at most
// Config.Tries times in all. Beside that, gRPC itself sends a call once more if the server has said that it never looked at
// it (a connection that is going away, a refused stream). Retries by a service config are switched off, whatever the
// Config says: they would send again what may have been applied.
//
// A stream's first message decides where it goes. What a client or bidirectional stream sends before it is admitted is kept
// to be sent again, up to Config.Replay; then SendMsg waits until the owner has admitted it. For that the owner
// sends the stream's header no later than when its handler asks for the second message: a handler that wants to
// set a header has to do so before.
//
// A streaming handler that goes on for long holds up the hand-off of its shard, in the end until it is cut off: return when
// Tenure.Draining is closed, with Unavailable, and the client opens the stream again at the next owner.
//
// # Answers
//
//	code                          when                                                      applied?
//	InvalidArgument               no key (*router.KeyError)                                 no
//	Unavailable                   nobody owns the shard, or could be reached, or too many   no
//	                              wait, or the handler's error says: not applied
//	Unknown                       sent to the owner, and no answer came; or the handler's   perhaps
//	                              error says so; or the tenure was lost under it
//	Internal                      the handler's error says that it came after the commit    yes
//	DeadlineExceeded, Canceled    the context ended                                         no, if it was not sent yet
//	FailedPrecondition            Options was given what can't work                         no
//
// Any other status is the handler's own and arrives as it was, with details, header and trailer. Unavailable is what
// clients of gRPC take as leave to send a call again, so here it never stands for what may have been applied, unless a handler
// returns it as a status of its own.
//
// The outcome is in the status: a google.rpc.ErrorInfo of domain "tenure" with reason NOT_APPLIED, UNCERTAIN or APPLIED, and a
// google.rpc.RetryInfo where trying again makes sense. cas.OutcomeOf reads it from a Client's errors, and [Outcome] from
// any error of gRPC. It is taken from what the handler's error says of itself (the Outcome method that all errors of this
// library have); a status alone says nothing, so its outcome is Uncertain. The error of a call that the handler has made
// (*CallError, *owner.NotOwnerError, owner.ErrBusy) says nothing of the call it serves, of which a part may be done: it
// arrives as Unknown. Of errors that are not a status, clients see the outcome and no text, which can name hosts and tables;
// Config.Logger does.
//
// # Metadata
//
// Names that begin with tenure- belong to this library. They are removed from what clients send and from what they get, apart
// from tenure-token, which is for handlers that have a fence.Gate. Else all metadata goes along, both ways. A
// forwarded call has the client's address as the last of x-forwarded-for, and its deadline.
//
// A node believes what tenure- metadata says of the hop if Config.Peer believes the sender: set it where clients reach nodes
// directly.
package grpcrouter
