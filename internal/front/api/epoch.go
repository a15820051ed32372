package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// issuedEpoch is the answer to a source that asks for an epoch.
type issuedEpoch struct {
	Epoch uint64 `json:"epoch"`
}

// postEpoch issues an epoch for a source. The messages of its earlier epochs are refused from then
// on.
func (s *server) postEpoch(w http.ResponseWriter, r *http.Request) error {
	m, err := s.addressed(r)
	if err != nil {
		return err
	}
	stream, err := s.stream(r)
	if err != nil {
		return err
	}
	m.ID, m.Source, m.Sequence, m.Group = "", m.ID, 1, r.URL.Query().Get("group")
	if stream.Admission != record.BySequence {
		return problem.New(problem.InvalidMessage, "This stream is not numbered, so its sources need no epochs.")
	}
	if err := place(stream, &m); err != nil {
		return err
	}
	if err := invalid(m.Validate()); err != nil {
		return err
	}
	after, err := afterEpoch(r)
	if err != nil {
		return err
	}
	epoch, err := s.Engine.IssueEpoch(r.Context(), m, after)
	if newer, ok := errors.AsType[*record.NewerEpochError](err); ok {
		p := problem.New(problem.Fenced, "Another epoch of this source was issued since. Ask again after that one.")
		p.Epoch = newer.Epoch
		return p
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, issuedEpoch{epoch})
}

// afterEpoch returns the epoch that the caller takes for the newest one, or nil.
func afterEpoch(r *http.Request) (*uint64, error) {
	values, given := r.URL.Query()["after"]
	if !given {
		return nil, nil //nolint:nilnil // there is none
	}
	epoch, err := number("after", values[0], 0)
	return &epoch, err
}

// checkEpochs returns an error for each message of a stream: nil, or why its epoch is refused. It
// returns nil if none is.
func (s *server) checkEpochs(ctx context.Context, stream record.Stream, messages []record.Message) []error {
	if stream.Admission != record.BySequence {
		return nil
	}
	for i := range messages {
		if record.EpochIssued(messages[i].Epoch) {
			return epochProblems(s.Engine.CheckEpochs(ctx, messages))
		}
	}
	return nil
}

func epochProblems(errs []error) []error {
	refused := false
	for i, err := range errs {
		refused = refused || err != nil
		if r, ok := errors.AsType[*record.RefusedError](err); ok {
			errs[i] = epochProblem(r.Reason)
		}
	}
	if !refused {
		return nil
	}
	return errs
}

func epochProblem(reason record.Reason) error {
	if reason == record.ReasonStaleEpoch {
		return problem.New(problem.Fenced, "A newer epoch of this source was issued: another sender has taken its place.")
	}
	return problem.New(problem.UnknownEpoch, "This epoch was not issued for this source, or it is forgotten. Ask for a new one.")
}
