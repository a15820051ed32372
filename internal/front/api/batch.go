package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/front/batch"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// postBatch accepts the messages of a batch, each for itself, and answers with a result for each.
func (s *server) postBatch(w http.ResponseWriter, r *http.Request) error {
	principal, err := s.caller(r)
	if err != nil {
		return err
	}
	stream, err := s.stream(r)
	if err != nil {
		return err
	}
	format, err := batchFormat(r.Header)
	if err != nil {
		return err
	}
	own := record.Message{Principal: principal, Stream: stream.Name, Headers: trace(r.Header)}
	results, err := s.runBatch(w, r, stream, own, format)
	if err != nil {
		return err
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = []string{format}, []string{"no-store"}
	h["Content-Length"] = []string{strconv.Itoa(len(results))}
	w.WriteHeader(http.StatusOK)
	// If writing fails, the caller is gone.
	_, _ = w.Write(results) //nolint:gosec // JSON or CBOR, with a type that no browser shows
	return nil
}

// runBatch reads a batch, accepts its messages and returns the encoded results. When it returns,
// the batch takes no more room: the caller may read the results slowly.
func (s *server) runBatch(w http.ResponseWriter, r *http.Request, stream record.Stream, own record.Message, format string) ([]byte, error) {
	data, leave, err := s.readBatch(w, r)
	defer leave()
	if err != nil {
		return nil, err
	}
	encoding, most := r.Header.Get("Content-Encoding"), len(data)
	if encoding != "" {
		most = batch.MaxBytes
	}
	share, err := s.room.process(r.Context(), most)
	if err != nil {
		return nil, err
	}
	defer share.leave()
	if data, err = s.decoder.Decode(encoding, data); err != nil {
		return nil, err
	}
	share.shrink(len(data))
	records, err := batch.Read(format, data)
	if err != nil {
		return nil, err
	}
	own.Accepted = s.Now()
	for i := range records {
		if x := &records[i]; x.Err == nil && x.Message.End {
			if err := s.Allow(r, headerEnd, stream.Name); err != nil && !errors.As(err, &x.Err) {
				x.Err = problem.New(problem.Forbidden, "No role allows this.")
			}
		}
	}
	fates := s.acceptRecords(r.Context(), stream, own, records)
	s.observeFates(r.Context(), stream.Name, s.Now().Sub(own.Accepted), fates)
	return s.results(r, format, records, fates)
}

// batchFormat returns the media type of a batch. The headers that describe a single message are
// refused, because each record has its own.
func batchFormat(h http.Header) (string, error) {
	for name := range h {
		if strings.HasPrefix(name, oncePrefix) || strings.HasPrefix(name, "Once_") {
			return "", malformed(name, "describes a single message: a record of a batch has it as a field")
		}
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media != batch.NDJSON && media != batch.CBORSeq || len(h["Content-Type"]) != 1 {
		return "", problem.New(problem.UnsupportedMediaType, "A batch is "+batch.NDJSON+" or "+batch.CBORSeq+": send it with this Content-Type.")
	}
	return media, nil
}

// readBatch reads a batch whole, as it was sent. The caller calls leave, also after an error, when
// it no longer needs the data.
func (s *server) readBatch(w http.ResponseWriter, r *http.Request) (data []byte, leave func(), err error) {
	if r.ContentLength > batch.MaxBytes {
		return nil, func() {}, batch.TooLarge()
	}
	if len(r.Header["Content-Encoding"]) > 1 {
		return nil, func() {}, problem.New(problem.UnsupportedMediaType, "Content-Encoding must be there once.")
	}
	data, leave, err = s.room.read(http.MaxBytesReader(w, r.Body, batch.MaxBytes), r.ContentLength)
	if err == nil && r.ContentLength >= 0 && int64(len(data)) != r.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	var p *problem.Problem
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		err = batch.TooLarge()
	} else if err != nil && !errors.As(err, &p) {
		err = brokenBody(w)
	}
	return data, leave, err
}

// trace returns the headers of a request's trace, which its messages inherit.
func trace(h http.Header) map[string]string {
	headers := map[string]string{}
	for _, name := range []string{"Traceparent", "Tracestate"} {
		if values := h[name]; len(values) > 0 {
			headers[name] = strings.Join(values, ", ")
		}
	}
	return headers
}

// acceptRecords accepts the messages of records and returns the fate of each. A record whose key
// was in the batch before is a repetition, or key reuse; it is not accepted a second time.
func (s *server) acceptRecords(ctx context.Context, stream record.Stream, own record.Message, records []batch.Record) []fate {
	errs := make([]error, len(records))
	messages, places := make([]record.Message, 0, len(records)), make([]int, 0, len(records))
	first := make(map[string]int, len(records)) // of an identity: its place in messages
	copies := map[int]int{}                     // of a record: the place of its first one
	for i := range records {
		if errs[i] = s.completeRecord(stream, own, &records[i]); errs[i] != nil {
			continue
		}
		m := &records[i].Message
		if m.Void && stream.Admission != record.BySequence {
			continue // there is no number to pass: it is settled
		}
		name := identity(stream, m)
		k, seen := first[name]
		if seen {
			copies[i] = k
			continue
		}
		first[name] = len(messages)
		messages, places = append(messages, *m), append(places, i)
	}
	var accepted []fate
	if len(messages) > 0 {
		accepted = s.acceptAll(ctx, stream, messages)
	}
	if len(accepted) == len(records) {
		return accepted
	}
	fates := make([]fate, len(records))
	for k, i := range places {
		fates[i] = accepted[k]
	}
	for i := range records {
		if errs[i] != nil {
			fates[i].err = errs[i]
		}
		if k, is := copies[i]; is {
			fates[i] = s.repeated(ctx, stream, &records[i].Message, &messages[k], accepted[k])
		}
	}
	return fates
}

// identity returns the text that two messages of one principal and stream share if they are the
// same one.
func identity(stream record.Stream, m *record.Message) string {
	if stream.Admission == record.BySequence {
		return m.GroupName() + "\x1f" + m.Number()
	}
	return m.Identity()
}

// completeRecord sets the fields of a record's message that are those of the request, and checks
// it.
func (s *server) completeRecord(stream record.Stream, own record.Message, r *batch.Record) error {
	if r.Err != nil {
		return r.Err
	}
	m := &r.Message
	m.Principal, m.Stream, m.Accepted = own.Principal, own.Stream, own.Accepted
	for name, value := range own.Headers {
		if _, has := m.Headers[name]; !has {
			setHeader(m, name, value)
		}
	}
	if stream.Admission == record.BySequence && (m.Source == "" || m.Sequence == 0) {
		return problem.New(problem.InvalidMessage, "This stream is numbered: send source and sequence.")
	}
	if m.End && stream.LogRetention == 0 {
		return noEnd()
	}
	if m.ID == "" && m.Source == "" {
		return problem.New(problem.MissingKey, "Send a key, the same one with every repetition of this message.")
	}
	if err := place(stream, m); err != nil {
		return err
	}
	if r.Delayed {
		if err := postpone(stream, m, r.Delay, own.Accepted); err != nil {
			return err
		}
	}
	if most := stream.BodyLimitOf(m); len(m.Body) > most {
		return tooLarge(most)
	}
	if err := s.loops(m); err != nil && !m.Void {
		return err
	}
	return invalid(m.Validate())
}

// repeated returns the fate of a message whose identity an earlier one of the batch has.
func (s *server) repeated(ctx context.Context, stream record.Stream, m, earlier *record.Message, f fate) fate {
	print := m.Fingerprint()
	switch {
	case print == earlier.Fingerprint():
		f.replayed = true
		return f
	case again(f.err):
		return fate{err: problem.New(problem.Unavailable, behindDetail)}
	case f.err != nil && f.token.State != record.Absent && f.token.Fingerprint == print:
		// the earlier one reused the key of a message that this one repeats
		return s.acceptAll(ctx, stream, []record.Message{*m})[0]
	}
	return fate{err: rejection(record.ReasonKeyReuse, "")}
}

// results returns the encoded results of a batch, and logs the first error of a port.
func (s *server) results(r *http.Request, format string, records []batch.Record, fates []fate) ([]byte, error) {
	results := make([]batch.Result, len(fates))
	id, failures := "", 0
	var failure error
	for i := range fates {
		f := &fates[i]
		if f.err == nil {
			results[i] = batch.Result{ID: records[i].Message.Identity(), Replayed: f.replayed}
			continue
		}
		if id == "" {
			id = s.RequestID(r)
		}
		var p *problem.Problem
		if !errors.As(f.err, &p) {
			p = problem.New(problem.Unavailable, "Send this message again under the same key.")
			if failures++; failure == nil {
				failure = f.err
			}
		}
		results[i].Err = p
	}
	if failure != nil {
		s.logFailures(r, id, failures, failure)
	}
	return batch.Write(format, records, results, instance(id))
}

// logFailures logs that a port failed for messages of a batch, unless the caller has gone.
func (s *server) logFailures(r *http.Request, id string, failures int, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return
	}
	s.Log.LogAttrs(r.Context(), slog.LevelError, "messages of a batch not accepted", append(append(named(r, id),
		slog.String("stream", r.PathValue("stream")), slog.Int("messages", failures)), record.FailureAttrs(0, err)...)...)
}
