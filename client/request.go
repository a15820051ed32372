package client

import (
	"context"
	"fmt"
	"net/http"
)

// A one-time request is stored under an id, run once, and deleted. Each of the three steps may be
// repeated without harm:
//
//	Put      stores the request; nothing runs yet
//	Run      runs it, or returns the stored reply if it has run
//	Delete   deletes the request and its reply
//
// A caller that crashes repeats the same steps under the same id.

// Request is the content of a one-time request.
type Request struct {
	Stream string
	// ID identifies the request within its stream; the caller chooses it. Required.
	ID string
	// Group is the unit of state and order. Defaults to the id.
	Group       string
	ContentType string
	// Headers are part of the request, under the rules of [Message].
	Headers map[string]string
	Body    []byte
}

// Put stores a request; fresh reports whether it is new. If the id was used for other content, it
// returns a [*Problem] of type [KeyReuse].
func (c *Client) Put(ctx context.Context, q Request) (fresh bool, err error) {
	m := Message{Stream: q.Stream, Group: q.Group, ContentType: q.ContentType, Headers: q.Headers}
	header, err := m.header()
	if err != nil {
		return false, err
	}
	at, err := c.requestAt(q.Stream, q.ID)
	if err != nil {
		return false, err
	}
	fresh, err = call(ctx, c, request{method: http.MethodPut, url: at, header: header, body: q.Body}, func(a answer) (bool, *Problem) {
		if _, ok := c.acknowledges(a, q.Stream, q.ID); !ok {
			return false, problemOf(a)
		}
		return a.status == http.StatusCreated, nil
	})
	if err != nil {
		return false, fmt.Errorf("put request: %w", keyed(err, q.ID))
	}
	return fresh, nil
}

// Run runs a stored request, or returns the reply of the first run. If the request does not exist,
// it returns a [*Problem] of type [UnknownMessage]; if it was deleted, of type [Deleted]. If the
// handler set no reply, Run returns status 200 and the server's receipt as the body. A response
// that does not come from a once server is not treated as a reply: the call is repeated, or returns
// a [*Problem] without a type, as [Client.Send] does.
func (c *Client) Run(ctx context.Context, stream, id string) (Reply, error) {
	at, err := c.requestAt(stream, id)
	if err != nil {
		return Reply{}, err
	}
	reply, err := call(ctx, c, request{method: http.MethodPost, url: at}, func(a answer) (Reply, *Problem) {
		r, done := c.acknowledges(a, stream, id)
		if a.ofHandler() || done && r.Status == "done" {
			return *replyOf(a), nil
		}
		return Reply{}, problemOf(a)
	})
	if err != nil {
		return Reply{}, fmt.Errorf("run request: %w", keyed(err, id))
	}
	return reply, nil
}

// Delete deletes a request and its reply; later calls of Run are told that it is deleted.
func (c *Client) Delete(ctx context.Context, stream, id string) error {
	at, err := c.requestAt(stream, id)
	if err != nil {
		return err
	}
	_, err = call(ctx, c, request{method: http.MethodDelete, url: at}, func(a answer) (struct{}, *Problem) {
		if a.status == http.StatusNoContent {
			return struct{}{}, nil
		}
		return struct{}{}, problemOf(a)
	})
	if err != nil {
		return fmt.Errorf("delete request: %w", keyed(err, id))
	}
	return nil
}

func (c *Client) requestAt(stream, id string) (string, error) {
	if stream == "" || id == "" {
		return "", fmt.Errorf("name request: stream and id must not be empty")
	}
	return c.at("streams", stream, "requests", id), nil
}
