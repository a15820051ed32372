package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// stream returns the stream that the path names.
func (s *server) stream(r *http.Request) (record.Stream, error) {
	stream, known := s.Engine.Stream(r.PathValue("stream"))
	if !known {
		return record.Stream{}, problem.New(problem.UnknownStream, unknownStream(r.PathValue("stream"), s.Streams(r)))
	}
	return stream, nil
}

// maxStreamsNamed bounds the streams that one problem names.
const maxStreamsNamed = 20

// unknownStream names the stream that was asked for, and those that exist.
func unknownStream(name string, known []string) string {
	if len(name) > record.MaxStreamName {
		name = strings.ToValidUTF8(name[:record.MaxStreamName], "") + "…"
	}
	detail := fmt.Sprintf("There is no stream %q here.", name)
	switch n := len(known); {
	case n == 0:
		return detail
	case n > maxStreamsNamed:
		return fmt.Sprintf("%s The first %d of %d are: %s.", detail, maxStreamsNamed, n, strings.Join(known[:maxStreamsNamed], ", "))
	default:
		return detail + " There are: " + strings.Join(known, ", ") + "."
	}
}

// caller returns the principal of the sender, and refuses it if it is not allowed.
func (s *server) caller(r *http.Request) (string, error) {
	principal, err := s.Principal(r)
	// Principals with a tilde are the system's own: streams that send to streams.
	if err != nil || strings.HasPrefix(principal, "~") {
		return "", &problem.Problem{Type: problem.Forbidden}
	}
	return principal, nil
}

// addressed returns the identity that the path of a message or of a one-time request names.
func (s *server) addressed(r *http.Request) (record.Message, error) {
	principal, err := s.caller(r)
	if err != nil {
		return record.Message{}, err
	}
	stream, err := s.stream(r)
	if err != nil {
		return record.Message{}, err
	}
	m := record.Message{Principal: principal, Stream: stream.Name, ID: r.PathValue("id")}
	if m.ID == "" {
		return m, &problem.Problem{Type: problem.UnknownRoute}
	}
	return m, nil
}

// message reads a message from a request, and checks it.
func (s *server) message(w http.ResponseWriter, r *http.Request) (record.Stream, record.Message, error) {
	var m record.Message
	principal, err := s.caller(r)
	if err != nil {
		return record.Stream{}, m, err
	}
	stream, err := s.stream(r)
	if err != nil {
		return stream, m, err
	}
	if m.ID, err = idempotencyKey(r.Header); err != nil {
		return stream, m, err
	}
	if err := readHeaders(r.Header, &m); err != nil {
		return stream, m, err
	}
	m.Principal, m.Stream = principal, stream.Name
	if m.End {
		if err := s.Allow(r, headerEnd, stream.Name); err != nil {
			return stream, m, err
		}
	}
	if err := admissible(stream, &m); err != nil {
		return stream, m, err
	}
	if err := place(stream, &m); err != nil {
		return stream, m, err
	}
	if err := s.readDelay(r.Header, stream, &m); err != nil {
		return stream, m, err
	}
	return stream, m, s.complete(w, r, stream, &m)
}

// admissible checks that a message carries the proof that its stream admits by, and that it ends a
// log only if there is one.
func admissible(stream record.Stream, m *record.Message) error {
	if m.End && stream.LogRetention == 0 {
		return noEnd()
	}
	if stream.Admission == record.BySequence {
		if m.Source == "" || m.Sequence == 0 {
			return problem.New(problem.InvalidMessage, "This stream is numbered: send Once-Source and Once-Sequence.")
		}
		return nil
	}
	// source, epoch and sequence name a message as well as a key does
	if m.ID == "" && m.Source == "" {
		return problem.New(problem.MissingKey, "Send an Idempotency-Key, the same one with every repetition of this message.")
	}
	return nil
}

// place places a message in a partition of a stream with a pool. Callers can't do that.
func place(stream record.Stream, m *record.Message) error {
	if m.Placed() {
		return malformed(headerGroup, "must be UTF-8 text without control characters")
	}
	return invalid(stream.Place(m))
}

func noEnd() error {
	return problem.New(problem.InvalidMessage, "This stream keeps no log that could end.")
}

// complete reads the body and sets the fields that the HTTP API itself knows.
func (s *server) complete(w http.ResponseWriter, r *http.Request, stream record.Stream, m *record.Message) error {
	var err error
	if m.Body, err = readBody(w, r, stream.BodyLimitOf(m)); err != nil {
		return err
	}
	m.Accepted = s.Now()
	if err := s.loops(m); err != nil {
		return err
	}
	return invalid(m.Validate())
}

// loops returns a problem if a message came through this system before.
func (s *server) loops(m *record.Message) error {
	if s.System == "" || !slices.Contains(m.Via, s.System) {
		return nil
	}
	return problem.New(problem.Loop, "Not accepted, because "+record.LoopDetail(m.Via, s.System)+".")
}

// invalid returns the problem for a broken rule: rules are public, so is their text.
func invalid(err error) error {
	if broken, ok := errors.AsType[*record.InvalidError](err); ok {
		return problem.New(problem.InvalidMessage, broken.Error()+".")
	}
	return err
}

// readBody reads a body of at most most bytes whole. If its length is known and not large, it needs
// no second buffer, because it never gets larger.
func readBody(w http.ResponseWriter, r *http.Request, most int) (body []byte, err error) {
	switch {
	case r.ContentLength > int64(most):
		return nil, tooLarge(most)
	case r.ContentLength >= 0:
		body, err = readLength(r.Body, int(r.ContentLength))
	default:
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, int64(most)))
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, tooLarge(most)
	}
	if err != nil {
		return nil, brokenBody(w)
	}
	return body, nil
}

// readLength reads a body of a known length. A caller that only announces a large body takes no more
// memory than one with a small body.
func readLength(from io.Reader, length int) ([]byte, error) {
	body := make([]byte, min(length, firstRead))
	n, err := io.ReadFull(from, body)
	if err != nil || n == length {
		return body, err
	}
	body = append(make([]byte, 0, length), body...)[:length]
	_, err = io.ReadFull(from, body[n:])
	return body, err
}

// brokenBody returns the problem for a body that was not read to its end, and closes the
// connection. The caller may send the request again: nothing of it was kept.
func brokenBody(w http.ResponseWriter) error {
	w.Header().Set("Connection", "close")
	return problem.New(problem.IncompleteBody, "The body ended early or came too slowly.")
}

// tooLarge names the limit, which is not the same for all streams.
func tooLarge(most int) error {
	return problem.New(problem.TooLarge, fmt.Sprintf("A body may have at most %d bytes here.", most))
}
