package sqsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/ingress"
	"github.com/effectively-once/once/internal/record"
)

// ownSender is the sender of every message that comes in here. Callers are not authenticated, so it
// must never be a trusted sender.
const ownSender = "sqs-api"

// maxRequest bounds a request's bytes: a batch of the largest size whose every byte is escaped.
const maxRequest = 7 << 20

const (
	targetPrefix = "AmazonSQS."
	contentType  = "application/x-amz-json-1.0"
	account      = "000000000000"
)

// Config configures the handler.
type Config struct {
	// Ingress and IngressFIFO take the messages. Required.
	Ingress, IngressFIFO queue.Queue
	// Stream reports whether there is a stream of that name. Required.
	Stream func(name string) bool
	// Check returns a [*record.InvalidError] if the stream of a message does not take its body.
	// Defaults to nothing.
	Check func(m *record.Message) error
	// Source returns the source of that name, nil if there is none, and whether its queue is
	// first-in-first-out. Defaults to none.
	Source func(name string) (s *ingress.Source, fifo bool)
	// Enqueue puts messages on their ingress queues, durably, and returns an error for each.
	// Required with Source.
	Enqueue func(ctx context.Context, messages []record.Message) []error
	// Counts returns how many messages of a queue are visible, in flight and delayed. Defaults to
	// returning 0.
	Counts func(q queue.Queue) (visible, inFlight, delayed int)
	// Trusted lists the trusted senders; New returns an error if ownSender is among them.
	Trusted []string
	// Log defaults to discarding.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Counts == nil {
		c.Counts = func(queue.Queue) (int, int, int) { return 0, 0, 0 }
	}
	if c.Check == nil {
		c.Check = func(*record.Message) error { return nil }
	}
	if c.Source == nil {
		c.Source = func(string) (*ingress.Source, bool) { return nil, false }
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	switch {
	case c.Ingress == nil || c.IngressFIFO == nil || c.Stream == nil:
		return errors.New("both ingress queues and Stream are required")
	case c.Source != nil && c.Enqueue == nil:
		return errors.New("a Source needs Enqueue")
	case queue.FIFO(c.Ingress.Name()) || !queue.FIFO(c.IngressFIFO.Name()):
		return errors.New("IngressFIFO must be first-in-first-out, and Ingress must not")
	case slices.Contains(c.Trusted, ownSender):
		return fmt.Errorf("trusted senders must not include %q: otherwise every sender could claim another's identity", ownSender)
	}
	return nil
}

// A Handler answers requests in the JSON protocol of SQS.
type Handler struct{ config Config }

// New returns a handler, or an error if the configuration is not valid.
func New(c Config) (*Handler, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("make SQS handler: %w", err)
	}
	return &Handler{config: c.withDefaults()}, nil
}

// Handles reports whether a request is one for SQS.
func Handles(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := uuid.NewString()
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-Requestid", id)
	answer, err := h.answer(r, w)
	status := http.StatusOK
	if err != nil {
		var e *apiError
		if !errors.As(err, &e) {
			h.config.Log.Error("request not answered", "request_id", id, "error", err)
			e = errInternal
		}
		status = e.status
		w.Header().Set("X-Amzn-Query-Error", e.code+";"+e.fault())
		answer = errorBody{Type: "com.amazonaws.sqs#" + e.name, Message: e.message}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		h.config.Log.Error("answer not encoded", "request_id", id, "error", err)
		status, body = http.StatusInternalServerError, nil
	}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		h.config.Log.Debug("answer not delivered", "request_id", id, "error", err)
	}
}

// answer returns the answer to be sent as JSON, or an *apiError.
func (h *Handler) answer(r *http.Request, w http.ResponseWriter) (any, error) {
	if r.Method != http.MethodPost {
		return nil, failure(shapeUnsupported, "Only POST is supported, with the JSON protocol of SQS.")
	}
	action, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	if !ok {
		return nil, failure(shapeUnsupported, "The header X-Amz-Target must be AmazonSQS. and an action. Only the JSON protocol of SQS is supported.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, failure(shapeTooLong, fmt.Sprintf("The request must be at most %d bytes.", maxRequest))
	}
	if err != nil {
		return nil, failure(shapeParameter, "The request's body could not be read.")
	}
	switch action {
	case "SendMessage":
		return decoded(body, func(in *sendInput) (any, error) { return h.send(r, in) })
	case "SendMessageBatch":
		return decoded(body, func(in *batchInput) (any, error) { return h.sendBatch(r, in) })
	case "GetQueueUrl":
		return decoded(body, func(in *urlInput) (any, error) { return h.queueURL(r, in) })
	case "GetQueueAttributes":
		return decoded(body, h.attributes)
	}
	return nil, failure(shapeUnsupported, fmt.Sprintf("The action %.64q is not supported here. Supported: SendMessage, SendMessageBatch, GetQueueUrl, GetQueueAttributes.", action))
}

func decoded[T any](body []byte, serve func(*T) (any, error)) (any, error) {
	// if it were decoded, invalid bytes would be replaced, and the checksum would differ from the
	// client's
	if !utf8.Valid(body) {
		return nil, failure(shapeContents, "The request's body must be UTF-8 text.")
	}
	in := new(T)
	if err := json.Unmarshal(body, in); err != nil {
		return nil, failure(shapeParameter, "The request's body must be the action's JSON object.")
	}
	return serve(in)
}

// sourcePrefix begins the names of the queues of sources.
const sourcePrefix = "ingress-"

// A target is a queue as clients name it.
type target struct {
	name   string
	queue  queue.Queue
	stream string // that it is bound to
	source *ingress.Source
}

func (t target) fifo() bool { return queue.FIFO(t.queue.Name()) }

// find returns the queue of that name.
func (h *Handler) find(name string) (target, error) {
	switch name {
	case "ingress":
		return target{name: name, queue: h.config.Ingress}, nil
	case "ingress.fifo":
		return target{name: name, queue: h.config.IngressFIFO}, nil
	case "":
		return target{}, failure(shapeMissing, "The request must contain the parameter QueueUrl or QueueName.")
	}
	stream, fifo := strings.CutSuffix(name, ".fifo")
	switch {
	case fifo && h.config.Stream(stream):
		return target{name: name, queue: h.config.IngressFIFO, stream: stream}, nil
	case fifo && h.config.Stream(name): // a stream may have such a name itself
		return target{name: name, queue: h.config.IngressFIFO, stream: name}, nil
	case !fifo && h.config.Stream(name):
		return target{name: name, queue: h.config.Ingress, stream: name}, nil
	}
	if of, ok := strings.CutPrefix(stream, sourcePrefix); ok {
		if s, inOrder := h.config.Source(of); s != nil && inOrder == fifo {
			to := h.config.Ingress
			if fifo {
				to = h.config.IngressFIFO
			}
			return target{name: name, queue: to, source: s}, nil
		}
	}
	return target{}, failure(shapeNoQueue, "The specified queue does not exist.")
}

// byURL finds a queue by the last part of its URL; the host is not checked, because clients may use
// any name of the server.
func (h *Handler) byURL(url string) (target, error) {
	return h.find(url[strings.LastIndexByte(url, '/')+1:])
}

type urlInput struct{ QueueName string }

type urlOutput struct {
	QueueURL string `json:"QueueUrl"`
}

func (h *Handler) queueURL(r *http.Request, in *urlInput) (any, error) {
	t, err := h.find(in.QueueName)
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return urlOutput{scheme + "://" + r.Host + "/" + account + "/" + t.name}, nil
}
