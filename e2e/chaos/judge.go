package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
)

// A Verdict is the figures of a run, and what is wrong.
type Verdict struct {
	Form string `json:"form"`
	// Offered counts messages, Answers what clients were told in all, Accepted the messages of which a client was told that they are safe.
	Offered  int `json:"offered"`
	Answers  int `json:"answers"`
	Accepted int `json:"accepted"`
	// Applied counts messages that are done, as the public API says.
	Applied int `json:"applied"`
	// Sent counts effects at their destinations: lines of the file, and webhook identities. Repeated counts further requests under the same identity, by which a receiver knows them.
	Sent     int `json:"sent"`
	Repeated int `json:"repeated"`
	// Lost counts accepted messages that are not done, and effects of accepted messages that are missing.
	Lost int `json:"lost"`
	// Doubled counts second lines, and second webhook identities, of one message.
	Doubled int `json:"doubled"`
	// Wrong counts everything else: other content, wrong order, what nobody sent, key reuse that was not refused, what is left over.
	Wrong int `json:"wrong"`
	// Refused counts other contents under a known identity, which were all refused where Wrong is 0.
	Refused int            `json:"refused"`
	Faults  map[string]int `json:"faults"`
	Seconds float64        `json:"seconds"`
	// Problems says the first of what was lost, doubled or wrong in words.
	Problems []string `json:"problems,omitempty"`
}

// OK tells whether nothing was lost, doubled or wrong, and everything that was offered was accepted.
func (v *Verdict) OK() bool {
	return v.Lost == 0 && v.Doubled == 0 && v.Wrong == 0 && v.Accepted == v.Offered
}

// mostProblems is how many problems are said in words.
const mostProblems = 50

func (v *Verdict) charge(count *int, format string, args ...any) {
	*count++
	if len(v.Problems) < mostProblems {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

// done is what the public API says of a message whose effects have been sent.
const done = "done"

// identity names a message.
type identity struct{ stream, id string }

func (i identity) String() string { return i.stream + " " + i.id }

// A fate is what became of one message.
type fate struct {
	offer     Offer
	accepted  bool
	status    string
	fresh     int
	lines     int
	webhookID string
	reused    int // by SQS, to be found among the dead letters
}

// A judge walks through a folder.
type judge struct {
	Verdict
	folder   string
	run      Run
	messages map[identity]*fate
	webhooks map[string]identity
}

// Judge reads the evidence in a folder. Its error says what could not be read; what is wrong with the run is in the verdict.
func Judge(folder string) (*Verdict, error) {
	j := &judge{folder: folder, messages: map[identity]*fate{}, webhooks: map[string]identity{}}
	text, err := os.ReadFile(filepath.Join(folder, "run.json")) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("read evidence: %w", err)
	}
	if err := json.Unmarshal(text, &j.run); err != nil {
		return nil, fmt.Errorf("read run.json: %w", err)
	}
	j.Form, j.Faults, j.Seconds = j.run.Form, j.run.Faults, j.run.Seconds
	for _, step := range []func() error{j.offers, j.answers, j.statuses, j.lines, j.posts, j.letters} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	j.close()
	return &j.Verdict, nil
}

func (j *judge) offers() error {
	return each(j.folder, "offered.jsonl", func(_ int, o *Offer) {
		name := identity{o.Stream, o.ID}
		if j.messages[name] != nil {
			j.charge(&j.Wrong, "%s was made twice: the run itself is wrong", name)
		}
		j.messages[name] = &fate{offer: *o}
		j.Offered++
	})
}

// known gives the fate of a message; what nobody sent is charged.
func (j *judge) known(where, stream, id string) *fate {
	f := j.messages[identity{stream, id}]
	if f == nil {
		j.charge(&j.Wrong, "%s: nobody sent %s %q", where, stream, id)
	}
	return f
}

func (j *judge) answers() error {
	return each(j.folder, "told.jsonl", func(n int, a *Answer) {
		f := j.known(fmt.Sprintf("told, line %d", n), a.Stream, a.ID)
		if f == nil {
			return
		}
		j.Answers++
		if a.Reuse {
			j.reuse(f, a)
			return
		}
		if a.Code != http.StatusAccepted && a.Code != http.StatusOK {
			j.charge(&j.Wrong, "%s %s: a client was told %d", a.Stream, a.ID, a.Code)
			return
		}
		if !f.accepted {
			f.accepted = true
			j.Accepted++
		}
		if a.Way == "http" && !a.Replayed && f.offer.Source == "" {
			if f.fresh++; f.fresh > 1 {
				j.charge(&j.Wrong, "%s %s: clients were told %d times that it is new", a.Stream, a.ID, f.fresh)
			}
		}
	})
}

// reuse judges the answer to another content under a known identity.
func (j *judge) reuse(f *fate, a *Answer) {
	switch {
	case a.Way == "sqs" && a.Code == http.StatusOK:
		f.reused++
		j.Refused++
	case a.Code == http.StatusUnprocessableEntity:
		j.Refused++
	default:
		j.charge(&j.Wrong, "%s %s: other content was answered with %d", a.Stream, a.ID, a.Code)
	}
}

func (j *judge) statuses() error {
	return each(j.folder, "status.jsonl", func(n int, s *Status) {
		f := j.known(fmt.Sprintf("status, line %d", n), s.Stream, s.ID)
		if f == nil || f.status == done {
			return
		}
		if f.status = s.Status; f.status == done {
			j.Applied++
		}
	})
}

func (j *judge) lines() error {
	last, next := map[identity]uint64{}, map[identity]uint64{}
	var unreadable []error
	err := each(j.folder, "ledger.jsonl", func(n int, l *Line) {
		f := j.known(fmt.Sprintf("ledger, line %d", n), l.Stream, l.ID)
		if f == nil {
			return
		}
		if f.lines++; f.lines > 1 {
			j.charge(&j.Doubled, "ledger, line %d: %s %s is there for the %d. time", n, l.Stream, l.ID, f.lines)
			return
		}
		j.Sent++
		digest, err := l.digest()
		if err != nil {
			unreadable = append(unreadable, fmt.Errorf("ledger, line %d: %w", n, err))
		}
		if digest != f.offer.SHA256 || l.Source != f.offer.Source || l.Sequence != f.offer.Sequence || f.offer.Group != "" && l.Group != f.offer.Group {
			j.charge(&j.Wrong, "ledger, line %d: %s %s came out with another content", n, l.Stream, l.ID)
		}
		j.inOrder("ledger", last, l.Stream, l.Group, l.Number)
		if source := (identity{l.Stream, l.Source}); l.Source != "" {
			if next[source]++; l.Sequence != next[source] {
				j.charge(&j.Wrong, "ledger, line %d: %s comes with %d where %d is next", n, source, l.Sequence, next[source])
			}
		}
	})
	return errors.Join(append(unreadable, err)...)
}

// inOrder charges a number that does not come after the last one of its group.
func (j *judge) inOrder(where string, last map[identity]uint64, stream, group string, number uint64) {
	if number == 0 { // a message without a group record
		return
	}
	name := identity{stream, group}
	if number <= last[name] {
		j.charge(&j.Wrong, "%s: number %d of %s after %d", where, number, name, last[name])
	}
	last[name] = number
}

func (j *judge) posts() error {
	last := map[identity]uint64{}
	return each(j.folder, "posts.jsonl", func(n int, p *Post) {
		where := fmt.Sprintf("posts, line %d", n)
		f := j.known(where, p.Stream, p.ID)
		if f == nil {
			return
		}
		name := identity{p.Stream, p.ID}
		if p.Wrong != "" || p.SHA256 != f.offer.SHA256 {
			j.charge(&j.Wrong, "%s: %s came with another content or badly signed: %s", where, name, p.Wrong)
		}
		if other, ok := j.webhooks[p.WebhookID]; ok {
			if other != name {
				j.charge(&j.Wrong, "%s: webhook %s is both %s and %s", where, p.WebhookID, other, name)
			}
			j.Repeated++
			return
		}
		j.webhooks[p.WebhookID] = name
		if f.webhookID != "" {
			j.charge(&j.Doubled, "%s: %s has two effects, %s and %s", where, name, f.webhookID, p.WebhookID)
			return
		}
		f.webhookID = p.WebhookID
		j.Sent++
		j.inOrder(where, last, p.Stream, p.Group, p.Number)
	})
}

// letters expects exactly the reused identities that came by SQS, each at least once.
func (j *judge) letters() error {
	found := map[identity]bool{}
	err := each(j.folder, "letters.jsonl", func(_ int, l *Letter) {
		name := identity{l.Stream, l.ID}
		if f := j.messages[name]; l.Reason != "key-reuse" || f == nil || f.reused == 0 {
			j.charge(&j.Wrong, "dead letter %s: %s", name, l.Reason)
		}
		found[name] = true
	})
	for name, f := range j.messages {
		if f.reused > 0 && !found[name] {
			j.charge(&j.Wrong, "%s: other content came by SQS, and no dead letter tells", name)
		}
	}
	return err
}

// close charges what is missing.
func (j *judge) close() {
	for name, f := range j.messages {
		if !f.accepted {
			continue
		}
		if f.status != done {
			j.charge(&j.Lost, "%s is not done in the end, but %q", name, f.status)
		}
		to := j.run.Destinations[name.stream]
		if slices.Contains(to, "ledger") && f.lines == 0 {
			j.charge(&j.Lost, "%s has no line", name)
		}
		if slices.Contains(to, "posts") && f.webhookID == "" {
			j.charge(&j.Lost, "%s has no post", name)
		}
	}
	for _, left := range j.run.Left {
		j.charge(&j.Wrong, "left over: %s", left)
	}
}
