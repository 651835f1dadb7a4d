package grpcrouter_test

import (
	"context"
	"fmt"
	"io"

	"github.com/tenure-go/tenure/router/grpcrouter/internal/echopb"
)

// kinds makes one call of each kind with small messages, and checks all that comes back.
var kinds = map[string]func(ctx context.Context, c echopb.EchoClient, key string) (node string, _ error){
	"unary": func(ctx context.Context, c echopb.EchoClient, key string) (string, error) {
		r, err := c.Unary(ctx, &echopb.Request{Key: key, N: 7, Payload: []byte("x")})
		if err != nil || r.N != 7 || string(r.Payload) != "x" {
			return "", fmt.Errorf("got %v, %w", r, err)
		}
		return r.Node, nil
	},
	"down": func(ctx context.Context, c echopb.EchoClient, key string) (node string, _ error) {
		s, err := c.Down(ctx, &echopb.Request{Key: key, N: 3, Payload: []byte("x")})
		if err != nil {
			return "", err
		}
		for i := int64(0); ; i++ {
			r, err := s.Recv()
			if i == 3 && err == io.EOF {
				return node, nil
			}
			if err != nil || r.N != i || string(r.Payload) != "x" {
				return "", fmt.Errorf("reply %d: got %v, %w", i, r, err)
			}
			node = r.Node
		}
	},
	"up": func(ctx context.Context, c echopb.EchoClient, key string) (string, error) {
		s, err := c.Up(ctx)
		if err != nil {
			return "", err
		}
		for i := range 3 {
			if err := s.Send(&echopb.Request{Key: key, Payload: []byte{byte('a' + i)}}); err != nil {
				break // CloseAndRecv says why
			}
		}
		r, err := s.CloseAndRecv()
		if err != nil || r.N != 3 || string(r.Payload) != "abc" {
			return "", fmt.Errorf("got %v, %w", r, err)
		}
		return r.Node, nil
	},
	"both": func(ctx context.Context, c echopb.EchoClient, key string) (node string, _ error) {
		s, err := c.Both(ctx)
		if err != nil {
			return "", err
		}
		for i := range int64(3) {
			if err := s.Send(&echopb.Request{Key: key, Payload: []byte{byte(i)}}); err != nil && err != io.EOF {
				return "", err
			}
			r, err := s.Recv()
			if err != nil || r.N != i || len(r.Payload) != 1 || r.Payload[0] != byte(i) {
				return "", fmt.Errorf("reply %d: got %v, %w", i, r, err)
			}
			node = r.Node
		}
		if err := s.CloseSend(); err != nil {
			return "", err
		}
		if r, err := s.Recv(); err != io.EOF {
			return "", fmt.Errorf("at the end: got %v, %w", r, err)
		}
		return node, nil
	},
}
