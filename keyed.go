package once

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/front/idempotency"
	"github.com/effectively-once/once/internal/front/inprocess"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// keyed is a handler behind [Middleware].
type keyed struct {
	MiddlewareConfig
	guard *lease.Guard
	next  http.Handler
}

func (k *keyed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(k.Methods, r.Method) {
		k.next.ServeHTTP(w, r)
		return
	}
	if k.Key != nil {
		k.serveKeyOf(w, r)
		return
	}
	key, err := idempotency.Key(r.Header)
	var malformed *idempotency.MalformedError
	switch {
	case errors.As(err, &malformed):
		k.problem(problem.MalformedKey, malformed.Detail).Write(w, "")
	case key == "" && k.Missing == AllowMissingKey:
		k.next.ServeHTTP(w, r)
	case key == "":
		k.problem(problem.MissingKey, "This request needs an Idempotency-Key.").Write(w, "")
	default:
		if body, ok := k.body(w, r); ok {
			k.serve(w, r, key, body)
		}
	}
}

// serveKeyOf serves a request whose key the configuration chooses, which may depend on the body.
func (k *keyed) serveKeyOf(w http.ResponseWriter, r *http.Request) {
	body, ok := k.body(w, r)
	if !ok {
		return
	}
	key, err := k.Key(r, body)
	switch {
	case err != nil:
		k.problem(problem.MalformedKey, err.Error()).Write(w, "")
	case key == "" && k.Missing == AllowMissingKey:
		k.next.ServeHTTP(w, withBody(r, body))
	case key == "":
		k.problem(problem.MissingKey, "This request has no key.").Write(w, "")
	default:
		k.serve(w, r, key, body)
	}
}

// body reads the body of a request. If that fails, it answers the request.
func (k *keyed) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, k.MaxRequest))
	if err != nil {
		k.refuseBody(w, err)
	}
	return body, err == nil
}

// withBody returns a copy of a request with a body that was read.
func withBody(r *http.Request, body []byte) *http.Request {
	r = r.WithContext(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	return r
}

func (k *keyed) serve(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	x := &exchange{keyed: k, request: r, body: body}
	result, err := x.run(lease.Identity{
		Key:         record.NewTokenKey(k.Principal(r), lease.HTTPScope+k.Name, key),
		Fingerprint: requestFingerprint(r, body),
	})
	switch {
	case errors.Is(err, errUnkept):
		answer(w, x.unkept, x.once)
	case err != nil:
		k.refuse(w, err)
	case result.Duplicate:
		answer(w, result.Reply, http.Header{"Idempotent-Replayed": {"true"}})
	default:
		answer(w, result.Reply, x.once)
	}
}

// problem returns a problem of this service: with its pages, and with titles about requests,
// because its clients know no messages.
func (k *keyed) problem(t problem.Type, detail string) *problem.Problem {
	p := &problem.Problem{Type: t, Base: k.ProblemBase, Detail: detail}
	switch t {
	case problem.KeyReuse:
		p.Title = "Key was used for another request"
	case problem.Leased:
		p.Title = "Request with this key is running"
	default: // the title of the type fits requests, too
	}
	return p
}

func (k *keyed) refuseBody(w http.ResponseWriter, err error) {
	if errors.As(err, new(*http.MaxBytesError)) {
		k.problem(problem.TooLarge, fmt.Sprintf("The body has more than %d bytes.", k.MaxRequest)).Write(w, "")
		return
	}
	k.problem(problem.MalformedRequest, "The body could not be read.").Write(w, "")
}

// refuse writes the response to a request that could not be handled. It never shows the text of an
// error.
func (k *keyed) refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, lease.ErrKeyReuse):
		k.problem(problem.KeyReuse, "The first request with this key had another method, path, query or body. Send this one with a key of its own.").Write(w, "")
	case errors.As(err, new(*lease.LeasedError)):
		// The lease says when a crashed attempt is given up. Most attempts end much earlier, and
		// the next request waits again: a problem of this type has a Retry-After of 1 second.
		k.problem(problem.Leased, "Send the same request again: it gets the answer of the one that is running.").Write(w, "")
	case errors.Is(err, lease.ErrReplyTooLarge): // for the store, although not for MaxReply
		answer(w, k.tooLarge(), nil)
	case errors.Is(err, lease.ErrFenced):
		k.problem(problem.Leased, "Another replica has taken over the request: send it again.").Write(w, "")
	default:
		k.Log.Error("request not done", "error", err.Error())
		k.problem(problem.Unavailable, "").Write(w, "")
	}
}

// requestFingerprint hashes method, path, query and body.
func requestFingerprint(r *http.Request, body []byte) record.Fingerprint {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(r.Method), []byte(r.URL.EscapedPath()), []byte(r.URL.RawQuery), body} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash never fails
		h.Write(part)
	}
	var f record.Fingerprint
	h.Sum(f[:0])
	return f
}

// An exchange is one request and its own run of the handler.
type exchange struct {
	*keyed
	request *http.Request
	body    []byte
	// once are the headers that only the first response has.
	once   http.Header
	unkept *record.Reply
}

// errUnkept carries a response past the guard if it must not be stored.
var errUnkept = errors.New("reply is not to be kept")

// The limits of the pauses while a request waits for another one with the same key: of the first
// pause, and of all.
const (
	firstWait = 20 * time.Millisecond
	maxWait   = time.Second
)

// run runs the request under its lease. While another request with the key is running, it waits up
// to Wait.
func (x *exchange) run(id lease.Identity) (lease.Result, error) {
	ctx := x.request.Context()
	patience, cancel := context.WithTimeout(ctx, x.Wait)
	defer cancel()
	detached, release := detach(ctx)
	defer release()
	for limit := firstWait; ; limit = min(2*limit, maxWait) {
		wait := limit/2 + rand.N(limit/2) //nolint:gosec // jitter, not a secret
		result, err := x.guard.Leased(detached, id, x.handle)
		if !errors.As(err, new(*lease.LeasedError)) || backoff.Sleep(patience, wait) != nil {
			return result, err
		}
	}
}

// detach returns a context with the same deadline but without cancellation: if the client
// disconnects, it will retry with the same key and expect the answer.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	detached := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(detached, deadline)
	}
	return context.WithCancel(detached)
}

// handle runs the wrapped handler and returns its response, if that is to be stored.
func (x *exchange) handle(ctx context.Context) (*record.Reply, error) {
	rec := inprocess.NewRecorder(x.MaxReply)
	x.next.ServeHTTP(rec, withBody(x.request.WithContext(ctx), x.body))
	if rec.Status == 0 && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var reply *record.Reply
	reply, x.once = recorded(rec)
	if reply == nil {
		return x.tooLarge(), nil
	}
	if !x.Remember(reply.Status) {
		x.unkept = reply
		return nil, errUnkept
	}
	return reply, nil
}

// tooLarge returns the response that is stored instead of one that is too large, because the
// handler has run and must not run again.
func (k *keyed) tooLarge() *record.Reply {
	rec := inprocess.NewRecorder(1024)
	k.problem(problem.Internal, "The request was done, but its reply is too large to be remembered.").Write(rec, "")
	reply, _ := recorded(rec)
	return reply
}
