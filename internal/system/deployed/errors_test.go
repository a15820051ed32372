package deployed

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/queue"
)

func TestAnErrorThatRepeatingDoesNotChangeEndsTheSending(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		denied bool
		text   string
	}{
		"a message that no queue takes": {&queue.InvalidError{Field: "body", Rule: "must not be empty"}, false, "body must not be empty"},
		"a missing permission":          {&smithy.GenericAPIError{Code: "AccessDenied"}, true, "docs/cli.md"},
		"stale credentials":             {&smithy.GenericAPIError{Code: "ExpiredToken"}, true, "sign in again"},
		"a queue that is gone":          {&types.QueueDoesNotExist{}, true, "the ingress queue is gone"},
	} {
		got := hopeless(c.err)
		if got == nil || !strings.Contains(got.Error(), c.text) {
			t.Errorf("%s: %v", name, got)
			continue
		}
		if _, denied := errors.AsType[*DeniedError](got); denied != c.denied {
			t.Errorf("%s: %T", name, got)
		}
		if p, refused := errors.AsType[*client.Problem](got); refused == c.denied || refused && p.Type != client.InvalidMessage {
			t.Errorf("%s: %T", name, got)
		}
	}
	for _, err := range []error{nil, errors.New("away"), &smithy.GenericAPIError{Code: "ThrottlingException"}} {
		if got := hopeless(err); got != nil {
			t.Errorf("%v is not repeated: %v", err, got)
		}
	}
}

// A failing queue returns the error of each try.
type failing struct {
	queue.Queue
	err func(ctx context.Context) error
}

func (f failing) Send(ctx context.Context, _ []queue.Message) []queue.SendResult {
	return []queue.SendResult{{Err: f.err(ctx)}}
}

func TestAMessageThatIsNotAcknowledgedHasTheReasonOfTheLastTryAndOfTheEnd(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		limit   time.Duration // of the context
		elapsed time.Duration
		err     func(context.Context) error
		want    string
		cause   error
	}{
		"the time of the sender is over": {time.Minute, time.Nanosecond, func(context.Context) error { return away }, "away", away},
		"the context ends between tries": {20 * time.Millisecond, time.Minute, func(context.Context) error { return away }, "context deadline exceeded; the last try: away", away},
		"the context ends within a try":  {20 * time.Millisecond, time.Minute, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "context deadline exceeded", context.DeadlineExceeded},
		"the context ended before a try": {-time.Second, time.Minute, func(ctx context.Context) error { return context.Cause(ctx) }, "context deadline exceeded", context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				s := &QueueSender{queue: failing{err: c.err}, options: client.Options{MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond, MaxElapsed: c.elapsed}}
				open, ok := errors.AsType[*client.UnacknowledgedError](s.until(ctx, queue.Message{}))
				if !ok || open.Err == nil || open.Err.Error() != c.want || !errors.Is(open, c.cause) {
					t.Errorf("got %v, want %q", open, c.want)
				}
			})
		})
	}
}

func TestATruncatedArchiveIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/gone":
			w.WriteHeader(http.StatusForbidden)
		case "/cut":
			w.Header().Set("Content-Length", "100")
		}
		_, _ = io.Copy(w, iotest.OneByteReader(strings.NewReader("archive")))
	}))
	defer server.Close()
	s := &Stack{config: aws.Config{HTTPClient: server.Client()}}
	if data, err := s.download(t.Context(), server.URL+"/whole"); err != nil || string(data) != "archive" {
		t.Errorf("got %q, %v", data, err)
	}
	for path, want := range map[string]string{"/gone": "403 Forbidden", "/cut": "unexpected EOF"} {
		if _, err := s.download(t.Context(), server.URL+path); err == nil || err.Error() != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := s.download(t.Context(), "http://host:port/"); err == nil {
		t.Error("an invalid address is no error")
	}
}

func TestAStackSendsTriggersOnly(t *testing.T) {
	q := failing{err: func(context.Context) error { return nil }}
	named := map[string]queue.Queue{}
	p := ports{Ingress: name{q, "ingress"}, IngressFIFO: name{q, "ingress.fifo"}, Publish: q, PublishFIFO: q, Dead: name{q, "dead"}, DeadPublish: name{q, "dead-publish"}}.closed()
	named["ingress"], named["ingress.fifo"], named["dead"], named["dead-publish"] = p.Ingress, p.IngressFIFO, p.Dead, p.DeadPublish
	for name, q := range named {
		if err := q.Send(t.Context(), []queue.Message{{Body: "x"}})[0].Err; !errors.Is(err, errElsewhere) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s takes a message: %v", name, err)
		}
	}
	for _, q := range []queue.Queue{p.Publish, p.PublishFIFO} {
		if err := q.Send(t.Context(), []queue.Message{{Body: "x"}})[0].Err; err != nil {
			t.Errorf("a trigger: %v", err)
		}
	}
}

type name struct {
	queue.Queue
	name string
}

func (n name) Name() string { return n.name }
