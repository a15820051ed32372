package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Verdict holds the figures of a run, and the problems.
type Verdict struct {
	Form string `json:"form"`
	// Offered counts messages, Answers all answers to clients, Accepted the messages of which a
	// client was told that they are accepted.
	Offered  int `json:"offered"`
	Answers  int `json:"answers"`
	Accepted int `json:"accepted"`
	// Applied counts messages that are done, according to the public API.
	Applied int `json:"applied"`
	// Sent counts effects at their destinations: lines of the file, and webhook identities.
	// Repeated counts further requests with the same identity, which a receiver can drop.
	Sent     int `json:"sent"`
	Repeated int `json:"repeated"`
	// Lost counts accepted messages that are not done, and missing effects of accepted messages.
	Lost int `json:"lost"`
	// Doubled counts second lines, and second webhook identities, of one message.
	Doubled int `json:"doubled"`
	// Wrong counts all other violations: other content, wrong order, unknown messages, key reuse
	// that was not refused, leftovers.
	Wrong int `json:"wrong"`
	// Refused counts calls with other content under a known identity, which were all refused if
	// Wrong is 0.
	Refused int            `json:"refused"`
	Faults  map[string]int `json:"faults"`
	Seconds float64        `json:"seconds"`
	// Problems describes the first violations.
	Problems []string `json:"problems,omitempty"`
}

// OK reports whether there is no violation, and every offered message was accepted. A run without
// offers is not OK.
func (v *Verdict) OK() bool {
	return v.Lost == 0 && v.Doubled == 0 && v.Wrong == 0 && v.Accepted == v.Offered && v.Offered > 0
}

// mostProblems is how many problems are described.
const mostProblems = 50

func (v *Verdict) charge(count *int, format string, args ...any) {
	*count++
	if len(v.Problems) < mostProblems {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

// done is the public API's status of a message whose effects have been sent.
const done = "done"

// identity names a message.
type identity struct{ stream, id string }

func (i identity) String() string { return i.stream + " " + i.id }

// A fate is the evidence about one message.
type fate struct {
	offer     Offer
	accepted  bool
	told      string // the first HTTP answer
	status    string
	fresh     int
	lines     int
	webhookID string
	reused    int // by SQS; they must be among the dead letters
}

// A judge reads a folder.
type judge struct {
	Verdict
	folder   string
	run      Run
	messages map[identity]*fate
	webhooks map[string]identity
}

// Judge reads the evidence in a folder. It returns an error if a file can't be read; violations are
// in the verdict.
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

// known returns the fate of a message; an unknown message is a violation.
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
		if a.Way == "http" {
			j.said(f, a)
		}
	})
}

// said judges an HTTP answer for an accepted message: it must equal every other one, and at most
// one may say that the message is new.
func (j *judge) said(f *fate, a *Answer) {
	if !a.Replayed && f.offer.Source == "" {
		if f.fresh++; f.fresh > 1 {
			j.charge(&j.Wrong, "%s %s: clients were told %d times that it is new", a.Stream, a.ID, f.fresh)
		}
	}
	if f.offer.Group != "" && a.Group != "" && a.Group != f.offer.Group {
		j.charge(&j.Wrong, "%s %s: a client was told that its group is %q", a.Stream, a.ID, a.Group)
	}
	said := strings.Join([]string{a.Status, a.Group, a.Location}, " ")
	if f.told == "" {
		f.told = said
	}
	if said != f.told {
		j.charge(&j.Wrong, "%s %s: one client was told %q, another %q", a.Stream, a.ID, f.told, said)
	}
}

// reuse judges the answer to other content under a known identity.
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
	o := j.newOrder()
	var unreadable []error
	err := each(j.folder, "ledger.jsonl", func(n int, l *Line) {
		where := fmt.Sprintf("ledger, line %d", n)
		f := j.known(where, l.Stream, l.ID)
		if f == nil {
			return
		}
		if f.lines++; f.lines > 1 {
			j.charge(&j.Doubled, "%s: %s %s is there for the %d. time", where, l.Stream, l.ID, f.lines)
			return
		}
		j.Sent++
		digest, err := l.digest()
		if err != nil {
			unreadable = append(unreadable, fmt.Errorf("%s: %w", where, err))
		}
		same := digest == f.offer.SHA256 && l.Source == f.offer.Source && l.Sequence == f.offer.Sequence
		if !same || !f.offer.is(l.Group, l.ContentType) {
			j.charge(&j.Wrong, "%s: %s %s came out with another content", where, l.Stream, l.ID)
		}
		o.next(where, f, l.Group, l.Number)
	})
	return errors.Join(append(unreadable, err)...)
}

// is reports whether an effect has the group and content type of its message.
func (o *Offer) is(group, contentType string) bool {
	return (o.Group == "" || group == o.Group) && (o.ContentType == "" || contentType == o.ContentType)
}

// An order is the order in which messages arrived at a destination, counting first copies.
type order struct {
	*judge
	last map[identity]uint64 // number, by group
	come map[identity]uint64 // how many, by source
}

func (j *judge) newOrder() *order {
	return &order{j, map[identity]uint64{}, map[identity]uint64{}}
}

// next records a violation if a number does not follow the last one of its group, or a numbered
// message is not the next of its source.
func (o *order) next(where string, f *fate, group string, number uint64) {
	name := identity{f.offer.Stream, group}
	switch {
	case number > 0 && number <= o.last[name]:
		o.charge(&o.Wrong, "%s: number %d of %s after %d", where, number, name, o.last[name])
	case number == 0 && f.offer.Group != "" && slices.Contains(o.run.Ordered, f.offer.Stream):
		o.charge(&o.Wrong, "%s: %s %s has no number", where, f.offer.Stream, f.offer.ID)
	}
	o.last[name] = max(o.last[name], number)
	if source := (identity{f.offer.Stream, f.offer.Source}); f.offer.Source != "" {
		if o.come[source]++; f.offer.Sequence != o.come[source] {
			o.charge(&o.Wrong, "%s: %s comes with %d where %d is next", where, source, f.offer.Sequence, o.come[source])
		}
	}
}

func (j *judge) posts() error {
	o := j.newOrder()
	return each(j.folder, "posts.jsonl", func(n int, p *Post) {
		where := fmt.Sprintf("posts, line %d", n)
		f := j.known(where, p.Stream, p.ID)
		if f == nil {
			return
		}
		name := identity{p.Stream, p.ID}
		if p.Wrong != "" || p.SHA256 != f.offer.SHA256 || !f.offer.is(p.Group, p.ContentType) {
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
		o.next(where, f, p.Group, p.Number)
	})
}

// letters checks that the dead letters are exactly the reused identities that were sent by SQS,
// each at least once.
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

// close records missing effects.
func (j *judge) close() {
	for name, f := range j.messages {
		if !f.accepted {
			continue
		}
		if f.status != done {
			j.charge(&j.Lost, "%s is not done in the end, but %q", name, f.status)
		}
		to := j.run.Destinations[name.stream]
		if len(to) == 0 {
			j.charge(&j.Wrong, "%s has no destination: the run itself is wrong", name)
		}
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
