package link

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

const ndjson = "application/x-ndjson"

// maxAnswer is how much of an answer is read for each line, in bytes.
const maxAnswer = 8 << 10

// post sends lines in one request and sets the result of each. If it returns an error, the lines
// may or may not have been accepted.
func (s *Sender) post(ctx context.Context, lines []*line) error {
	if err := s.pause.admit(); err != nil {
		return err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	request, err := s.request(ctx, lines)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		if ctx.Err() == nil { // otherwise the other system may be fine
			s.pause.begin(0)
		}
		return withoutURL(err)
	}
	defer response.Body.Close()
	most := int64(maxAnswer * (len(lines) + 1))
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		s.pause.begin(0)
		return fmt.Errorf("read answer: %w", err)
	}
	return s.judge(response, body, lines)
}

func (s *Sender) request(ctx context.Context, lines []*line) (*http.Request, error) {
	size := 0
	for _, l := range lines {
		size += len(l.data)
	}
	body := make([]byte, 0, size)
	for _, l := range lines {
		body = append(body, l.data...)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("make request") // the error would contain the URL
	}
	r.Header.Set("Content-Type", ndjson)
	if s.config.Key == nil {
		return r, nil
	}
	key, err := s.config.Key()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read key: %w", err)
	case strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }):
		return nil, errors.New("the key has characters that a header can't carry")
	case s.config.Header == "":
		r.Header.Set("Authorization", "Bearer "+key)
	default:
		r.Header.Set(s.config.Header, key)
	}
	return r, nil
}

// judge sets the results of the lines from an answer. It returns an error if the answer is not
// that of a batch: then nothing is known about any line.
func (s *Sender) judge(response *http.Response, body []byte, lines []*line) error {
	code := response.StatusCode
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if code != http.StatusOK || media != ndjson {
		s.pause.begin(retryAfter(response.Header.Get("Retry-After"), s.config.Now()))
		return answerError(code, body)
	}
	results, err := parse(body, lines)
	if err != nil {
		s.pause.begin(0)
		return err
	}
	s.pause.end()
	for i, l := range lines {
		l.settle(&results[i])
	}
	return nil
}

func answerError(code int, body []byte) error {
	if len(body) > record.MaxAnswer {
		body = body[:record.MaxAnswer]
	}
	return &record.AnswerError{Status: code, Text: strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code)), Body: string(body)}
}

// A result is the answer to one line.
type result struct {
	Status  int    `json:"status"`
	ID      string `json:"id"`
	Problem *struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Detail string `json:"detail"`
	} `json:"problem"`
}

// errAnswer says that an answer has another form than that of a batch. Something between the
// systems may have written it.
var errAnswer = errors.New("the answer is not that of a once system to this request")

// parse returns the result of each line.
func parse(body []byte, lines []*line) ([]result, error) {
	results := make([]result, len(lines))
	d := json.NewDecoder(bytes.NewReader(body))
	for i, l := range lines {
		r := &results[i]
		if err := d.Decode(r); err != nil {
			return nil, errAnswer
		}
		accepted := r.Status == http.StatusAccepted && r.Problem == nil && r.ID == l.key
		refused := r.Status >= http.StatusBadRequest && r.Problem != nil
		if !accepted && !refused {
			return nil, errAnswer
		}
	}
	if d.More() {
		return nil, errAnswer
	}
	return results, nil
}

// settle applies a result to the line.
func (l *line) settle(r *result) {
	if r.Problem == nil {
		return
	}
	_, kind, _ := strings.Cut(r.Problem.Type, "#")
	detail := fmt.Sprintf("the other system answered %d %s: %s", r.Status, r.Problem.Title, r.Problem.Detail)
	reason := record.Reason("")
	switch kind {
	case "loop":
		reason = record.ReasonLoop
	case "malformed-request", "malformed-key", "missing-key", "invalid-message", "rejected", "too-large", "unsupported-media-type":
		reason = record.ReasonInvalid
	case "key-reuse":
		reason, l.voids = record.ReasonKeyReuse, false
	case "deleted":
		reason, l.voids = record.ReasonGone, false
	case "ended":
		reason, l.voids = record.ReasonEnded, false
	}
	if reason == "" || l.void { // a void message is sent until it is accepted
		text, _ := json.Marshal(r.Problem)
		l.err = answerError(r.Status, text)
		return
	}
	l.refused = &record.RefusedError{Reason: reason, Detail: record.RejectText(detail)}
}

// withoutURL removes the URL from an error of net/http.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// retryAfter parses seconds or a date; it returns 0 for any other value and for the past.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
