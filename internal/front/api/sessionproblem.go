package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// Pauses before a call of a session should be repeated.
const (
	fullRetry     = 10 * time.Second // somebody has to retire a session first
	conflictRetry = time.Second
)

// sessionProblem returns the problem for an error of a session; other errors stay as they are.
func sessionProblem(err error) error {
	var (
		held     *session.HeldError
		fenced   *session.FencedError
		moved    *session.MovedError
		expired  *session.ExpiredError
		ahead    *session.AheadError
		restored *session.RestoredError
	)
	switch {
	case errors.As(err, &held):
		return &problem.Problem{
			Type: problem.Held, Holder: held.Holder, RetryAfter: held.RetryAfter,
			Detail: "Another consumer holds the session. Open it again when its lease has ended; or with take: mine if you are the same holder; or with take: now to fence the other one.",
		}
	case errors.As(err, &fenced) && fenced.Fence == 0:
		return problem.New(problem.Fenced, "There is no session of this name. Open it first.")
	case errors.As(err, &fenced) && fenced.NotIssued:
		return &problem.Problem{
			Type: problem.Fenced, Fence: fenced.Fence, Holder: fenced.Holder,
			Detail: "The session was never opened under this fence: its last one is lower. Is the fence that of another session, or was the system restored from an older copy? Open the session again before anything else.",
		}
	case errors.As(err, &fenced):
		return &problem.Problem{
			Type: problem.Fenced, Fence: fenced.Fence, Holder: fenced.Holder,
			Detail: "The session was opened again since. Stop the work of this consumer, or open the session again before anything else.",
		}
	case errors.As(err, &moved):
		return &problem.Problem{
			Type: problem.Moved, Cursor: &moved.Cursor,
			Detail: "The cursor is not where this call begins. Open the session again, and continue after the number in your own store.",
		}
	case errors.As(err, &restored):
		return problem.New(problem.Restored, "The system was put back to an older copy at "+restored.At.Format(time.RFC3339)+", during the life of this session. Retire the session with the number in your own store, and open it again for a new life.")
	case errors.As(err, &expired):
		return expiredSession(expired)
	case errors.As(err, &ahead):
		return &problem.Problem{
			Type: problem.Ahead, Last: &ahead.Last,
			Detail: "The session has no such number in this life. Does your number belong to an earlier life of the session, or was the system restored from an older copy?",
		}
	}
	return sessionRefusal(err)
}

func expiredSession(e *session.ExpiredError) error {
	p := problem.New(problem.Expired, "Entries after this number can't be read any more. If you accept that those before first are lost, commit from your number to the one before first, and read on.")
	if p.First = e.First; e.Again {
		p.Detail = "The log of this group has begun again, so the numbers of this session name other entries. Retire the session and open it again."
	}
	return p
}

// sessionRefusal returns the problem for an error of a session that has no data.
func sessionRefusal(err error) error {
	switch {
	case errors.Is(err, session.ErrEnded):
		return &problem.Problem{Type: problem.Ended, Status: http.StatusGone, Detail: "The stream has ended, and all its entries are processed: nothing is left for a new session."}
	case errors.Is(err, session.ErrRetired):
		return problem.New(problem.Retired, "The session is closed, and its unread entries belong to others. Open it again for a new life, with numbers from 1.")
	case errors.Is(err, session.ErrPoolFull):
		return &problem.Problem{
			Type: problem.RateLimited, RetryAfter: fullRetry,
			Detail: "The pool has too many sessions and can't deal entries to a further one. Retire sessions that are not used; the others continue.",
		}
	case errors.Is(err, session.ErrNoList):
		return &problem.Problem{Type: problem.UnknownRoute}
	case errors.Is(err, record.ErrFull):
		return &problem.Problem{
			Type: problem.Unavailable, RetryAfter: conflictRetry,
			Detail: "Too many effects of this session wait to be published. Repeat the same commit.",
		}
	case errors.Is(err, record.ErrConflict):
		return &problem.Problem{
			Type: problem.Unavailable, RetryAfter: conflictRetry,
			Detail: "Other calls have changed the session or its pool all the time. Repeat the call.",
		}
	}
	return invalid(err)
}
