// Package grpcidem makes unary gRPC methods happen once per idempotency key, by package idem.
//
//	grpc.NewServer(
//		grpc.ChainUnaryInterceptor(authenticate, grpcidem.Unary(engine, config)),
//		grpc.ChainStreamInterceptor(grpcidem.Stream(config)),
//	)
//
// A client sends the key as metadata "idempotency-key", the same on each try. It gets the first try's
// response, status with its details, and trailers; header metadata says "idempotent-replayed: true". What
// belongs to a request besides its key is its method and message.
//
//	situation                              code                 reason (ErrorInfo)
//	no key where one is required, or bad   INVALID_ARGUMENT     KEY_MISSING, KEY_INVALID
//	another try is in progress             ABORTED, RetryInfo   IN_PROGRESS
//	the key was used for another request   FAILED_PRECONDITION  MISMATCH
//	done, and the answer is not there      FAILED_PRECONDITION  EXPIRED, NOT_KEPT
//	an earlier try was interrupted         FAILED_PRECONDITION  INTERRUPTED
//	the store can't be asked               UNAVAILABLE, RetryInfo  UNAVAILABLE
//	a streaming method, with a key         UNIMPLEMENTED        STREAM
//
// The domain of the reasons is "tenure.idem". A client's retry policy of gRPC sends the same metadata
// again, so the key is the same; retry UNAVAILABLE and ABORTED.
//
// Messages are compared as they are encoded deterministically, which is the same for one version of the
// protobuf library; unknown fields count.
package grpcidem
