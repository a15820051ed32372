package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Send sends a message until it is acknowledged. Every try has the same key, so that the server
// processes the message once.
//
// It retries after network errors, 408, 409, 425, 429 and 5xx, honours Retry-After, and stops when
// the context or [Options.MaxElapsed] ends. See the package comment for its errors.
func (c *Client) Send(ctx context.Context, m Message) (Receipt, error) {
	if m.Key == "" && m.Source == "" {
		key, err := c.options.NewKey()
		if err != nil {
			return Receipt{}, err
		}
		m.Key = key
	}
	header, err := m.header()
	if err != nil {
		return Receipt{}, err
	}
	r := request{method: http.MethodPost, url: c.at("streams", m.Stream, "messages"), header: header, body: m.Body, wait: m.Wait}
	receipt, err := call(ctx, c, r, func(a answer) (Receipt, *Problem) { return c.receipt(a, m) })
	if err != nil {
		return Receipt{}, fmt.Errorf("send message: %w", keyed(err, m.Key))
	}
	return receipt, nil
}

// keyed adds the key to an error, because the caller does not know a generated key.
func keyed(err error, key string) error {
	if open, ok := errors.AsType[*UnacknowledgedError](err); ok {
		open.Key = key
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		p.Key = key
	}
	return err
}

// receipt reads the response to a message: a receipt, or, if the caller waited, the handler's
// reply.
func (c *Client) receipt(a answer, m Message) (Receipt, *Problem) {
	if m.Wait > 0 && a.ofHandler() {
		return Receipt{Stream: m.Stream, ID: m.identity(), Group: m.Group, Status: "done", Replayed: replayed(a), Reply: replyOf(a)}, nil
	}
	if r, ok := c.acknowledges(a, m.Stream, m.identity()); ok {
		return r, nil
	}
	return Receipt{}, problemOf(a)
}

// acknowledges parses a message's receipt; ok is false for any other response. The body must name
// the message and have a valid status, because a handler or a proxy may also return JSON with a
// "status".
func (c *Client) acknowledges(a answer, stream, id string) (r Receipt, ok bool) {
	if a.status != http.StatusOK && a.status != http.StatusCreated && a.status != http.StatusAccepted {
		return Receipt{}, false
	}
	if json.Unmarshal(a.body, &r) != nil || r.Stream != stream || r.ID != id || r.Status != "accepted" && r.Status != "done" {
		return Receipt{}, false
	}
	// The server defines the body; these three are in headers.
	r.Replayed, r.Location, r.Reply = replayed(a), c.location(a), nil
	return r, true
}

const (
	headerReplayed = "Idempotent-Replayed"
	headerReply    = "Once-Reply"
)

// ofHandler reports whether the response is a handler's reply. A reply may look like a receipt, a
// problem or a proxy's response; the server marks every reply with a header, and only replies.
func (a answer) ofHandler() bool { return a.header.Get(headerReply) == "true" }

func replayed(a answer) bool { return a.header.Get(headerReplayed) == "true" }

func replyOf(a answer) *Reply {
	return &Reply{Status: a.status, Header: a.header, Body: a.body, Replayed: replayed(a)}
}

// location returns the absolute URL of the Location header; a server behind a path prefix does not
// know the prefix.
func (c *Client) location(a answer) string {
	text := a.header.Get("Location")
	at, err := url.Parse(text)
	if text == "" || err != nil {
		return ""
	}
	if at.IsAbs() {
		return text
	}
	base := *c.base
	joined := base.JoinPath(at.EscapedPath())
	joined.RawQuery = at.RawQuery
	return joined.String()
}

// Status is the status of a message.
type Status struct {
	ID     string `json:"id"`
	Stream string `json:"stream"`
	Group  string `json:"group"`
	// Status is accepted, held, committed, done or rejected.
	Status string `json:"status"`
	// Reason is why the message was rejected.
	Reason string `json:"reason,omitempty"`
	// Detail is the text with which the handler refused it.
	Detail string `json:"detail,omitempty"`
	// Reply is the stored part of the handler's reply.
	Reply *StoredReply `json:"reply,omitempty"`
}

// isStatus reports whether the server uses a word as a status.
func isStatus(word string) bool {
	return slices.Contains([]string{"accepted", "held", "committed", "done", "rejected"}, word)
}

// StoredReply is a handler's reply in the result of a look-up: Body if it is text, otherwise
// BodyBase64.
type StoredReply struct {
	Status     int         `json:"status"`
	Headers    http.Header `json:"headers,omitempty"`
	Body       string      `json:"body,omitempty"`
	BodyBase64 []byte      `json:"body_base64,omitempty"`
}

// Status looks a message up by its key. If the server does not know the message, it returns a
// [*Problem] of type [UnknownMessage]. For a numbered message use [Client.StatusAt].
func (c *Client) Status(ctx context.Context, stream, id string) (Status, error) {
	return c.StatusAt(ctx, c.at("streams", stream, "messages", id))
}

// StatusAt looks a message up at its [Receipt.Location].
func (c *Client) StatusAt(ctx context.Context, location string) (Status, error) {
	at, err := url.Parse(location)
	if err != nil || at.Host != c.base.Host || at.Scheme != c.base.Scheme {
		return Status{}, fmt.Errorf("look message up: %q is not on this server", location)
	}
	stream, id := named(at)
	if stream == "" || id == "" {
		return Status{}, fmt.Errorf("look message up: %q names no message", location)
	}
	status, err := call(ctx, c, request{method: http.MethodGet, url: location}, func(a answer) (s Status, p *Problem) {
		if a.status != http.StatusOK || json.Unmarshal(a.body, &s) != nil || s.ID != id || s.Stream != stream || !isStatus(s.Status) {
			return Status{}, problemOf(a)
		}
		return s, nil
	})
	if err != nil {
		return Status{}, fmt.Errorf("look message up: %w", err)
	}
	return status, nil
}

// named returns the stream and id of the message at a location, or empty strings if it is no
// location of a message. An id may contain slashes, and ends the path.
func named(location *url.URL) (stream, id string) {
	_, path, _ := strings.Cut(location.EscapedPath(), "/v1/streams/")
	parts := strings.SplitN(path, "/", 3)
	if len(parts) < 3 {
		return "", ""
	}
	stream, noStream := url.PathUnescape(parts[0])
	id, noID := url.PathUnescape(parts[2])
	if noStream != nil || noID != nil {
		return "", ""
	}
	return stream, id
}
