// Package change says what another configuration would do to the work that waits in a system.
//
// [Compare] is a pure function of two configurations and of counts. It lists the changes that need
// care: those after which a message can be lost, can wait for ever, or can be taken for another
// one. A new stream or a new destination is none of them.
package change

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

// Waiting counts the work that waits in a system.
type Waiting struct {
	// Streams has the counts of each stream that has group records.
	Streams map[string]Stream `json:"streams"`
	// Effects counts the effects that are committed and not sent, by their destination.
	Effects map[string]int `json:"effects"`
	// Queued counts the messages and triggers on all work queues. Which streams they belong to is
	// not known.
	Queued int `json:"queued"`
	// Sources counts the messages on the queue of each source.
	Sources map[string]int `json:"sources,omitempty"`
	// DeadLetters counts the messages on all dead-letter queues.
	DeadLetters int `json:"dead_letters"`
}

// Stream counts the work that waits in one stream.
type Stream struct {
	Groups int `json:"groups"`
	// Pending counts committed messages whose effects are not all sent.
	Pending int `json:"pending"`
	Held    int `json:"held"`
	// Restore is the highest number of a restore that a group knows.
	Restore int `json:"restore,omitempty"`
}

// A Change is one change of a configuration that needs care. The field names are a contract.
type Change struct {
	// Subject is the changed part, as "stream orders".
	Subject string `json:"subject"`
	// Change names the change, as "admission key -> token".
	Change string `json:"change"`
	// Risk is true if something waits that would be lost or stuck, or taken for something else.
	Risk bool `json:"risk"`
	// Unknown is true if that depends on counts, and they are not known.
	Unknown bool `json:"unknown,omitempty"`
	// Waiting says what waits, and is empty if nothing does.
	Waiting string `json:"waiting,omitempty"`
	// Effect describes the consequence, and Do the remedy.
	Effect string `json:"effect"`
	Do     string `json:"do"`
}

// Compare lists the changes that need care, in the order streams, destinations, sources, schedules
// and the rest. If waiting is nil, nothing is known of what waits.
func Compare(from, to *config.Config, waiting *Waiting) []Change {
	c := &comparison{from: from, to: to, waiting: waiting}
	for _, name := range from.StreamNames() {
		c.stream(name)
	}
	for _, name := range from.DestinationNames() {
		c.destination(name)
	}
	for _, name := range from.IngressNames() {
		c.source(name)
	}
	for _, name := range from.ScheduleNames() {
		c.schedule(name)
	}
	c.restores()
	c.name()
	return c.changes
}

// Undecided reports whether counts are needed to say whether a change is a risk.
func Undecided(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Unknown })
}

// Risky counts the changes that are a risk.
func Risky(changes []Change) (n int) {
	for _, c := range changes {
		if c.Risk {
			n++
		}
	}
	return n
}

// A comparison collects changes.
type comparison struct {
	from, to *config.Config
	waiting  *Waiting
	changes  []Change
}

// A part is one of the counts on which a risk depends.
type part struct {
	count int
	text  string
}

// listed returns the counts that are not 0 as text.
func listed(parts []part) string {
	var list []string
	for _, p := range parts {
		if p.count > 0 {
			list = append(list, fmt.Sprintf("%d %s", p.count, p.text))
		}
	}
	return strings.Join(list, ", ")
}

// add adds a change that is a risk if one of the counts is not 0.
func (c *comparison) add(x Change, parts ...part) {
	x.Waiting = listed(parts)
	x.Unknown = c.waiting == nil && len(parts) > 0
	x.Risk = x.Risk || x.Waiting != ""
	c.changes = append(c.changes, x)
}

// The counts of a stream, and of the whole system.

func (c *comparison) of(stream string) Stream {
	if c.waiting == nil {
		return Stream{}
	}
	return c.waiting.Streams[stream]
}

func (c *comparison) held(stream string) part    { return part{c.of(stream).Held, "held"} }
func (c *comparison) pending(stream string) part { return part{c.of(stream).Pending, "pending"} }
func (c *comparison) groups(stream string) part  { return part{c.of(stream).Groups, "groups"} }

func (c *comparison) queued() part {
	if c.waiting == nil {
		return part{}
	}
	return part{c.waiting.Queued, "queued in all streams"}
}

func (c *comparison) dead() part {
	if c.waiting == nil {
		return part{}
	}
	return part{c.waiting.DeadLetters, "dead letters of all streams"}
}

const drain = "stop its senders, wait until once show says idle, and deploy then"

func (c *comparison) stream(name string) {
	subject := "stream " + name
	was := c.from.Streams[name]
	is, ok := c.to.Streams[name]
	if !ok {
		c.add(Change{
			Subject: subject, Change: "removed",
			Effect: "queued messages become dead letters, held ones are held for ever, and effects that lost their trigger are not swept; dead letters can't be redriven",
			Do:     drain,
		}, c.held(name), c.pending(name), c.queued(), c.dead())
		return
	}
	if a, b := cmp.Or(was.Admission, record.ByKey), cmp.Or(is.Admission, record.ByKey); a != b {
		c.add(Change{
			Subject: subject, Change: fmt.Sprintf("admission %s -> %s", a, b),
			Effect: "the new admission does not look at what the old one remembers: copies of messages that were processed run again, and held messages stay held",
			Do:     drain,
		}, c.held(name), c.pending(name), c.queued())
	}
	if a, b := cmp.Or(was.Order, config.OrderGroup), cmp.Or(is.Order, config.OrderGroup); a != b {
		c.add(Change{
			Subject: subject, Change: fmt.Sprintf("order %s -> %s", a, b),
			Effect: "effects get other identities: what is sent in part or waits is sent under two, and its receivers can't recognise the copy",
			Do:     "stop its senders, wait until once show says idle, redrive or drop its dead letters, and deploy then",
		}, c.held(name), c.pending(name), c.queued(), c.dead())
	}
	c.retention(name, was, is)
	c.state(name, was.State.Retain, is.State.Retain)
	c.gap(name, was, is)
	c.log(name, was, is)
	c.handler(name)
}

func (c *comparison) handler(name string) {
	was, before := c.from.Handlers[name]
	is, after := c.to.Handlers[name]
	before, after = before && was.Kind() != config.HandlerCode, after && is.Kind() != config.HandlerCode
	x := Change{Subject: "handler " + name, Do: drain}
	switch {
	case !before && after:
		x.Change = "added"
		x.Effect = "messages that wait are handled in place of being forwarded; with order: none, or if they have no group, their effects get other identities"
		c.add(x, c.pending(name), c.queued())
	case before && !after:
		x.Change = "removed"
		x.Effect = "messages that wait are forwarded to the destinations of the stream, and no longer change the states of groups"
		c.add(x, c.queued())
	case before && (was.Kind() != is.Kind() || was.Target() != is.Target()):
		x.Change = "is another program"
		x.Effect, x.Do = "it gets the states that the old one has left", "look that it reads them: try it with once handler try"
		c.add(x)
	}
}

// queueRetention is the longest that a queue of SQS keeps a message. A retention above it is never
// shorter than a message has waited in its queue.
const queueRetention = 14 * 24 * time.Hour

func (c *comparison) retention(name string, was, is config.Stream) {
	a, b := cmp.Or(was.Retention.Std(), record.DefaultRetention), cmp.Or(is.Retention.Std(), record.DefaultRetention)
	x := Change{Subject: "stream " + name, Change: fmt.Sprintf("retention %s -> %s", config.Duration(a), config.Duration(b))}
	switch {
	case b < a && is.Admission == record.BySequence:
		x.Effect, x.Do = "replies of messages that are done are forgotten earlier", "nothing, if no sender asks for them later"
		c.add(x)
	case b < a:
		x.Effect = "messages that were accepted longer ago than the new value and are delivered only now become dead letters (expired); a key that is sent again after it is new"
		x.Do = "wait until the queues and dead-letter queues have no message that is older"
		waits := []part{c.dead()}
		if b < queueRetention {
			waits = append(waits, c.queued())
		}
		c.add(x, waits...)
	case b > a:
		x.Effect = "for the difference, a copy or dead letter of a message that was forgotten looks new and runs again"
		x.Do = "redrive or drop old dead letters before, and let copies in other queues expire"
		c.add(x, c.dead())
	}
}

// state compares how long states are kept. A shorter time is no risk, because it counts from the
// next message of a group. If the setting was absent, the deployed version may be one that deletes
// states.
func (c *comparison) state(name string, was, is config.Duration) {
	a, b := cmp.Or(was, config.Forever), cmp.Or(is, config.Forever)
	if b >= a {
		return
	}
	x := Change{
		Subject: "stream " + name, Change: fmt.Sprintf("state.retain %s -> %s", a, b),
		Effect: fmt.Sprintf("from its next message on, a group that gets no message for %s loses its state", b),
		Do:     "look that no group is idle for so long and still needed",
	}
	if was == 0 {
		x.Change = fmt.Sprintf("state.retain not set -> %s", b)
		x.Effect += "; until then its state is kept, or deleted as the deployed version does it: earlier ones did so after 30d"
	}
	c.add(x)
}

func (c *comparison) gap(name string, was, is config.Stream) {
	a, b := cmp.Or(was.Gap.Policy, record.GapWait), cmp.Or(is.Gap.Policy, record.GapWait)
	sooner := a == b && is.Gap.After < was.Gap.After
	if a == b && !sooner || b == record.GapWait || was.Admission != is.Admission {
		return
	}
	x := Change{Subject: "stream " + name, Change: fmt.Sprintf("gap.policy %s -> %s", a, b), Do: "find the missing numbers before: once show " + name + " lists the groups that hold messages"}
	if sooner {
		x.Change = fmt.Sprintf("gap.after %s -> %s", was.Gap.After, is.Gap.After)
	}
	x.Effect = "gaps that are older than gap.after are skipped, and their numbers are refused later"
	if b == record.GapFail {
		x.Effect = "messages that are held behind a gap older than gap.after become dead letters"
	}
	c.add(x, c.held(name))
}

func (c *comparison) log(name string, was, is config.Stream) {
	subject := "stream " + name
	switch {
	case was.Pool != nil && is.Pool == nil:
		c.add(Change{Subject: subject, Change: "pool removed", Effect: "sessions can't read the entries that they have not processed", Do: "end the stream and wait until its sessions have processed all, or keep the pool"}, c.groups(name))
	case was.Pool == nil && is.Pool != nil:
		c.add(Change{Subject: subject, Change: "pool added", Effect: "messages get partitions in place of their groups, whose records know which messages are duplicates", Do: "give the pool to a new stream, or drain this one before"}, c.groups(name))
	case was.Pool != nil && partitions(was) != partitions(is):
		c.add(Change{
			Subject: subject, Change: fmt.Sprintf("pool.partitions %d -> %d", partitions(was), partitions(is)),
			Effect: "a message gets another partition, whose record does not know its duplicates", Do: "keep the number: it can't be changed once the stream has messages",
		}, c.groups(name))
	case was.Pool == nil && was.Log != nil && is.Log == nil:
		c.add(Change{Subject: subject, Change: "log removed", Effect: "readers get no entries any more", Do: "stop its readers before"}, c.groups(name))
	}
	if a, b := retain(was), retain(is); b > 0 && b < a {
		c.add(Change{
			Subject: subject, Change: fmt.Sprintf("log.retain %s -> %s", config.Duration(a), config.Duration(b)),
			Effect: "entries that are committed from now on can be read for a shorter time", Do: "look that every reader is faster than that",
		})
	}
}

// deployedPartitions is the number of partitions on AWS of a pool that sets none.
const deployedPartitions = 8

func partitions(s config.Stream) int { return cmp.Or(s.Pool.Partitions, deployedPartitions) }

// retain returns how long entries of a stream's log can be read, or 0 if it has none.
func retain(s config.Stream) time.Duration { return s.Settings("").LogRetention }

func (c *comparison) destination(name string) {
	subject := "destination " + name
	was := c.from.Destinations[name]
	is, ok := c.to.Destinations[name]
	unsent := part{text: "effects pending"}
	if c.waiting != nil {
		unsent.count = c.waiting.Effects[name]
	}
	switch {
	case !ok:
		c.add(Change{
			Subject: subject, Change: "removed", Effect: "its pending effects, and all later ones of their groups, wait until it is back",
			Do: "take it out of its streams first, and remove it when nothing is pending for it",
		}, unsent)
	case was.Kind() != is.Kind() || was.Target() != is.Target() || was.Stream != is.Stream || was.Group != is.Group:
		c.add(Change{
			Subject: subject, Change: "sends to another place",
			Effect: "effects that were sent in part, or whose answer was lost, reach the old place and the new one", Do: "give the new place a new name, and remove the old one when nothing is pending for it",
		}, unsent)
	}
}

func (c *comparison) source(name string) {
	was := c.from.Ingress[name]
	is, ok := c.to.Ingress[name]
	x := Change{Subject: "source " + name, Effect: "nothing reads its old queue any more: its messages are lost, at the latest after 14 days; its dead letters can't be redriven", Do: "stop what sends to it, wait until its queue is empty, and deploy then"}
	switch {
	case !ok:
		x.Change = "removed"
	case was.FIFO != is.FIFO:
		x.Change = fmt.Sprintf("fifo %t -> %t", was.FIFO, is.FIFO)
	case was.StreamOf(name) != is.StreamOf(name):
		x.Change = fmt.Sprintf("stream %s -> %s", was.StreamOf(name), is.StreamOf(name))
		x.Effect = "what waits in its queue goes to the new stream, which does not know the messages that the old one has processed: their copies run again"
	case !slices.Equal(was.ID, is.ID) || was.From != is.From:
		x.Change, x.Effect = "identity of its messages", "copies and dead letters of messages that were processed have another identity and run again"
	default:
		return
	}
	queued := part{text: "in its queue"}
	if c.waiting != nil {
		var known bool
		if queued.count, known = c.waiting.Sources[name]; !known {
			x.Risk, x.Effect = true, x.Effect+", which could not be counted"
		}
	}
	c.add(x, queued, c.dead())
}

// schedule looks for times that the old configuration would have sent late.
func (c *comparison) schedule(name string) {
	was := c.from.Schedules[name]
	is, ok := c.to.Schedules[name]
	if !ok || was.Cron == is.Cron && was.Timezone == is.Timezone {
		return
	}
	c.add(Change{
		Subject: "schedule " + name, Change: fmt.Sprintf("times %q -> %q", strings.TrimSpace(was.Cron+" "+was.Timezone), strings.TrimSpace(is.Cron+" "+is.Timezone)),
		Effect: "the schedule starts again: a time that was missed before, and that is not sent yet, is never sent", Do: "nothing, if no time was missed: once schedules shows the last one",
	})
}

// restores looks for entries that are gone or changed. A new one at the end belongs to a restore.
func (c *comparison) restores() {
	kept := 0
	for kept < min(len(c.from.Restores), len(c.to.Restores)) && c.from.Restores[kept].Equal(c.to.Restores[kept]) {
		kept++
	}
	if kept == len(c.from.Restores) {
		return
	}
	stuck := 0
	if c.waiting != nil {
		for _, s := range c.waiting.Streams {
			if s.Restore > len(c.to.Restores) {
				stuck += s.Groups
			}
		}
	}
	c.add(Change{
		Subject: "restores", Change: fmt.Sprintf("entry %d removed or changed", kept+1), Risk: true,
		Effect: "groups that have numbers of a restore which is not listed are refused, and effects can get identities that were used before",
		Do:     "keep all entries, and add new ones at the end",
	}, part{stuck, "groups in streams that have such numbers"})
}

func (c *comparison) name() {
	if c.from.Name == c.to.Name || c.from.Name == "" {
		return
	}
	effects := part{text: "effects pending for other systems"}
	for _, name := range c.from.DestinationNames() {
		if c.waiting != nil && c.from.Destinations[name].Kind() == config.KindOnce {
			effects.count += c.waiting.Effects[name]
		}
	}
	c.add(Change{
		Subject: "name", Change: fmt.Sprintf("%q -> %q", c.from.Name, c.to.Name),
		Effect: "linked systems take this one for another: effects that they have already are there twice", Do: "keep the name, or change it when nothing is pending for other systems",
	}, effects)
}
