// Package objectfence fences an object in a bucket by conditional writes: If-Match and If-None-Match, as S3
// and those that speak like it have them. It imports no SDK: a Bucket is two methods over yours.
//
//	fences, err := objectfence.New(bucket, objectfence.Config{})
//	...
//	o, err := fences.Seal(ctx, t.Token()) // in the handler, before Ready
//	state := decode(o.Body())
//	...
//	err = o.Write(ctx, encode(state))
//
// # What holds
//
// Each shard has one object. A write says If-Match with the ETag that this owner saw last, and Seal is
// such a write: it puts its own epoch into the object, and so changes the ETag. The bucket compares and
// writes in one step; hence once Seal has returned no write of an older owner matches, however
// late it arrives, and what Seal has read stays as it was. That is a fence in full, provided that the
// bucket's conditional writes are linearizable, as those of S3, Google's and Azure's are.
//
// The epoch stands in the object's content, in a line before the state, with a number that grows with each
// write. In metadata it would be of no use: S3 computes an ETag from the content alone, so a seal that
// changed only metadata would leave the zombie's ETag matching; and an owner that wrote an earlier
// content again would make an earlier ETag match again.
//
// Two objects are not fenced together. Keep a shard's state in one, or put what is large into objects
// that are never overwritten, and only their names into the fenced one.
//
// # What an answer means
//
//	200  written
//	412  the ETag is another: somebody has sealed (*fence.FencedError), or a write of this owner that had
//	     been given up for lost has arrived; then the Write goes on top of it
//	404  the object is gone: fence.ErrNotSealed
//	409  another request was under way at the same time: nothing was written (ErrConflict), try again
//	     with the same Object
//	else, or no answer at all: cas.ErrUncertain. The next Write of the Object finds out
//
// A write to S3 takes some tens of milliseconds: this is for snapshots and manifests, not for each command.
package objectfence
