package mcp

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// endless is a connection on which requests come without end.
type endless struct {
	size int
	read int
	deaf bool // it takes nothing that is written
	over chan struct{}
}

func (c *endless) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case <-c.over:
		return nil, io.EOF
	default:
	}
	c.read++
	if c.read%2 == 0 {
		return &jsonrpc.Request{Method: "notifications/progress"}, nil
	}
	id, err := jsonrpc.MakeID(fmt.Sprint(c.read))
	return &jsonrpc.Request{ID: id, Method: strings.Repeat("x", c.size)}, err
}

func (c *endless) Write(ctx context.Context, _ jsonrpc.Message) error {
	if !c.deaf {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (c *endless) Close() error {
	close(c.over)
	return nil
}

func (*endless) SessionID() string { return "" }

// trust 8.11: at most 64 requests of a server are under way, and they are short together; notifications are not kept.
func TestRequestsUnderWay(t *testing.T) {
	for _, tt := range []struct{ size, want int }{
		{4, 64},
		{64 << 10, 15}, // and their ids: under 1 MiB
		{2 << 20, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &endless{size: tt.size, over: make(chan struct{})}
			w := newWire(time.Minute, time.Minute)
			w.Connection = c
			var got []jsonrpc.Message
			end := make(chan error)
			go func() {
				for {
					msg, err := w.Read(t.Context())
					if err != nil {
						end <- err
						return
					}
					got = append(got, msg)
				}
			}()
			synctest.Wait()
			if len(got) != tt.want {
				t.Errorf("of %d bytes each: %d, want %d", tt.size, len(got), tt.want)
			}
			answer := func() { // the first
				id := got[0].(*jsonrpc.Request).ID
				got = got[1:] // before others follow
				if err := w.Write(t.Context(), &jsonrpc.Response{ID: id}); err != nil && !c.deaf {
					t.Error(err)
				}
				synctest.Wait()
			}
			if answer(); len(got) != tt.want {
				t.Errorf("after an answer: %d, want %d", len(got), tt.want)
			}
			c.deaf = true
			began := time.Now()
			if answer(); len(got) != tt.want || time.Since(began) != time.Minute {
				t.Errorf("after an answer that is not taken: %d after %s, want %d after a minute", len(got), time.Since(began), tt.want)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if err := <-end; err == nil {
				t.Error("it does not end")
			}
		})
	}
}

// An id says which request an answer belongs to: another one with it waits.
func TestRequestsWithOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(time.Minute, time.Minute)
		w.Connection = &endless{over: make(chan struct{})}
		id, err := jsonrpc.MakeID("a")
		if err != nil {
			t.Fatal(err)
		}
		admitted := 0
		go func() {
			for range 3 {
				w.admit(&jsonrpc.Request{ID: id})
				admitted++
			}
		}()
		for want := 1; want <= 3; want++ {
			if synctest.Wait(); admitted != want {
				t.Errorf("%d requests, want %d", admitted, want)
			}
			if err := w.Write(t.Context(), &jsonrpc.Response{ID: id}); err != nil {
				t.Error(err)
			}
		}
	})
}
