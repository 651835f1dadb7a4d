package objectfence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenure-go/tenure/owner/fence"
	"github.com/tenure-go/tenure/owner/fence/fencetest"
	"github.com/tenure-go/tenure/owner/fence/objectfence"
)

// Two owners of one shard, the first of which does not know that it is replaced. In a service the token is
// Tenure.Token's.
func Example() {
	ctx := context.Background()
	fences, err := objectfence.New(&bucket{objects: make(map[string][]byte)}, objectfence.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := fences.Seal(ctx, fencetest.Token(41))
	fmt.Printf("%q %v\n", first.Body(), err)
	fmt.Println(first.Write(ctx, []byte("three orders")))

	second, err := fences.Seal(ctx, fencetest.Token(57))
	fmt.Printf("%q %v\n", second.Body(), err)

	err = first.Write(ctx, []byte("four orders"))
	if fenced, ok := errors.AsType[*fence.FencedError](err); ok {
		fmt.Println("stale:", fenced.Mine, "is behind", fenced.Current)
	}
	fmt.Println(second.Write(ctx, []byte("no orders")))
	// Output:
	// "" <nil>
	// <nil>
	// "three orders" <nil>
	// stale: 33:41 is behind 33:57
	// <nil>
}
