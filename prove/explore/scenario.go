package explore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/effectively-once/once/internal/record"
)

// A Scenario is the input of an exploration: messages, workers, and the number of faults. All
// orders are explored.
type Scenario struct {
	// Name is the name of its file.
	Name string `yaml:"-"`
	// About describes the purpose of the scenario in a sentence.
	About string `yaml:"about"`

	Stream   Stream             `yaml:"stream"`
	Messages map[string]Message `yaml:"messages"`
	Requests map[string]Request `yaml:"requests"`
	// Issued names the messages whose tokens are issued at the start.
	Issued []string `yaml:"issued"`
	// Done names the messages that were done before the start, as their tokens say, and Kept those
	// of which the records of their groups say so. Left names messages that an older program
	// committed: their entries, without effects, are in the record, and their tokens are not
	// marked.
	Done []string `yaml:"done"`
	Kept []string `yaml:"kept"`
	Left []string `yaml:"left"`
	// Arrive names the messages on the ingress queue at the start. A message that is named twice is
	// delivered twice, at any time.
	Arrive []string `yaml:"arrive"`
	// Ask names the requests that clients repeat until they are answered; a name may occur twice,
	// as in Arrive.
	Ask []string `yaml:"ask"`
	// Guard names the messages that a leased consumer receives instead of the process function; a
	// name may occur twice, as in Arrive.
	Guard []string `yaml:"guard"`
	// FIFO says that the ingress queue delivers messages in order, one batch of a group at a time,
	// as long as no worker dies. If Direct is set too, all messages are of one group, the HTTP API
	// processes them only if it gets the first place in the group, and the messages that it
	// puts on the queue after that are ahead of all others. The messages of a batch are then
	// applied in their order, and those that were on the queue at the start are applied first.
	FIFO bool `yaml:"fifo"`
	// Direct says that the HTTP API processes messages without the queue. A lapse is then the end
	// of an attempt's time limit. Recalls says that all workers are one process, which triggers
	// every group with pending effects when it starts again.
	Direct  bool `yaml:"direct"`
	Recalls bool `yaml:"recalls"`
	// Impatient says that clients do not repeat a request if the answer is lost.
	Impatient bool `yaml:"impatient"`
	// Batch is the largest number of messages in one delivery. Defaults to 1.
	Batch   int     `yaml:"batch"`
	Workers Workers `yaml:"workers"`
	Budget  Budget  `yaml:"budget"`
	// Tick is the step of the clock.
	Tick Duration `yaml:"tick"`
	// Deadline is the longest lifetime of a worker: time does not pass beyond it. 0 means no limit.
	// Records must outlive workers.
	Deadline Duration `yaml:"deadline"`
	// Waits says that time passes while a lease runs and no worker does.
	Waits bool `yaml:"waits"`
	// Bound ends the exploration after about that many states; 0 means no limit.
	Bound int `yaml:"bound"`
	// Dead names the messages that may become dead letters instead of being applied, and the
	// allowed reasons.
	Dead map[string][]record.Reason `yaml:"dead"`
	// Both names messages that may be dead letters and applied as well: see "What it can't promise"
	// in docs/correctness.md.
	Both []string `yaml:"both"`
	// Hurries says that a worker's deadline may pass when it is about to retry, as a failed call.
	Hurries bool `yaml:"hurries"`
	// Receives is the receive count that the queue reports, and Tries is how many deliveries the
	// process function allows to a message whose handler fails. They default to 1 and to the
	// default of the function. The time of every message is over.
	Receives int `yaml:"receives"`
	Tries    int `yaml:"tries"`
	// Skip is the number of the effect that an operator skips.
	Skip uint64 `yaml:"skip"`
	// Room is how many pending entries fit into a group's record; 0 means no limit.
	Room int `yaml:"room"`
	// CommitsDone says that the store can mark tokens done in a commit.
	CommitsDone bool `yaml:"commits-done"`
	// CommitsTogether says that the store can write the commits of several groups with one write.
	CommitsTogether bool `yaml:"commits-together"`
	// Whole says that a copy of the store has the queues too, as a copy of a data folder.
	Whole bool `yaml:"whole"`
	// Stamped says that the copy has the restores before it, as a data folder. Otherwise a
	// configuration lists all.
	Stamped bool `yaml:"stamped"`
	// Apart says that tokens are copied first, and all other records at a later time, as those of
	// two tables. A message may then be applied again although the copy of its group has its
	// change.
	Apart bool `yaml:"apart"`
	// Forgets says that records expire while copies of messages are in flight, so that a message
	// may be applied again.
	Forgets bool `yaml:"forgets"`
}

// Stream is the stream of a scenario, and the behaviour of its handler.
type Stream struct {
	Admission record.Admission `yaml:"admission"`
	Stateless bool             `yaml:"stateless"`
	// Keep says that the group record takes the place of the done token of a message that is a
	// group of its own. Then a message without a group is one.
	Keep bool `yaml:"keep"`
	// Mixed says that every second worker does not do so, as if it were configured otherwise.
	Mixed   bool `yaml:"mixed"`
	Effects int  `yaml:"effects"`
	// Fails says that the handler may fail, as a call that changes nothing.
	Fails bool `yaml:"fails"`
	// Log says that the groups have logs, to which the handler appends an entry for each message.
	Log bool `yaml:"log"`
	// Pool says that the stream has a pool with one partition, and can be ended: then its log ends,
	// with the message that has end set. All messages are of one queue, in the order in which they
	// were put there; they need fifo and log.
	Pool bool `yaml:"pool"`
	// Retain is how long entries of logs can be read. Defaults to [record.DefaultLogRetention].
	Retain Duration `yaml:"retain"`
	Reply  bool     `yaml:"reply"`
	// Asks is the largest number of messages in one call of a batch handler, which takes the place
	// of the handler. It answers all messages of a call, or the first ones, or the call fails.
	Asks           int      `yaml:"asks"`
	Blob           bool     `yaml:"blob"`
	Retention      Duration `yaml:"retention"`
	GroupRetention Duration `yaml:"group-retention"`
	// StateRetention is [record.Stream.StateRetention], where 0 is for ever. By default a record with
	// state is kept as one without, so that the expiry of a record is explored with its state.
	StateRetention *Duration        `yaml:"state-retention"`
	Gap            record.GapPolicy `yaml:"gap"`
	After          Duration         `yaml:"after"`
	// Distance limits how far ahead a message may be held. Defaults to the default of streams.
	Distance uint64 `yaml:"distance"`
	// Sequenced says that deliveries to the destinations are numbered without gaps.
	Sequenced bool `yaml:"sequenced"`
	// Destinations is how many destinations each effect has. Defaults to 1.
	Destinations int `yaml:"destinations"`
	// Events says that the destinations are notified of skipped numbers.
	Events bool `yaml:"events"`
	// For is the time of the destinations' retry policy. 0 means that effects are retried without
	// an end.
	For Duration `yaml:"for"`
}

// Message is a message of a scenario. Its id defaults to its name in the scenario, its group to
// "g".
type Message struct {
	ID        string            `yaml:"id"`
	Group     string            `yaml:"group"`
	Source    string            `yaml:"source"`
	Epoch     uint64            `yaml:"epoch"`
	Sequence  uint64            `yaml:"sequence"`
	DependsOn map[string]uint64 `yaml:"depends-on"`
	Parents   []uint64          `yaml:"parents"`
	Body      string            `yaml:"body"`
	// End says that the message ends the log of its group.
	End bool `yaml:"end"`
	// Void says that the message takes the place of a number that its sender gave up.
	Void bool `yaml:"void"`
	// Deletes says that the handler deletes the state of the group. The explorer keeps the state to
	// check it, and tells the stream that the record is one without state. Silent says that the
	// handler sends nothing.
	Deletes bool `yaml:"deletes"`
	Silent  bool `yaml:"silent"`
	// Rejected says that the handler refuses the message for good, Refused that the destinations
	// refuse its effects, Large that its results do not fit into a record.
	Rejected bool `yaml:"rejected"`
	// RejectedBefore is a message: the handler refuses this one until that one is applied.
	RejectedBefore string `yaml:"rejected-before"`
	// Fails says that every call of a batch handler with the message fails.
	Fails   bool `yaml:"fails"`
	Refused bool `yaml:"refused"`
	// Untaken says that every try to send its effects fails.
	Untaken bool `yaml:"untaken"`
	Large   bool `yaml:"large"`
	// Accepted says that the HTTP API recorded the time of acceptance: the start.
	Accepted bool `yaml:"accepted"`
	// Sets is the name of a timer that the handler sets, which is due after After, and Cancels that
	// of one that it cancels.
	Sets    string   `yaml:"sets"`
	After   Duration `yaml:"after"`
	Cancels string   `yaml:"cancels"`
	// Later delays its effects.
	Later Duration `yaml:"later"`
}

// Request is an HTTP request of a scenario.
type Request struct {
	// Do is the method and the path.
	Do string `yaml:"do"`
	// Message names the message in the request. Messages names those of a batch, in the place of
	// Message, Header and Body.
	Message  string            `yaml:"message"`
	Messages []string          `yaml:"messages"`
	Header   map[string]string `yaml:"header"`
	Body     string            `yaml:"body"`
}

// names returns the names of the messages in the request.
func (r Request) names() []string {
	if len(r.Messages) > 0 {
		return r.Messages
	}
	return []string{r.Message}
}

// Workers is the number of concurrent workers of each kind.
type Workers struct {
	Process int `yaml:"process"`
	Publish int `yaml:"publish"`
	HTTP    int `yaml:"http"`
	Sweep   int `yaml:"sweep"`
	Guard   int `yaml:"guard"`
	// Keep is the number of keepers of delayed messages. Defaults to 1.
	Keep int `yaml:"keep"`
}

// Budget is how often each fault or event may happen in one run.
type Budget struct {
	// Failures are calls that fail, before they are applied or after.
	Failures int `yaml:"failures"`
	// Deaths are workers that die between two calls, or in one.
	Deaths int `yaml:"deaths"`
	// Late are writes that are reported as failed and applied at any later time.
	Late int `yaml:"late"`
	// Lapses are deliveries whose visibility time ends while their worker continues: the queue
	// redelivers the message, and may or may not apply the late acknowledgement to the second
	// delivery.
	Lapses int `yaml:"lapses"`
	// Redrives are dead letters that are put back on the queue.
	Redrives int `yaml:"redrives"`
	// Triggers are triggers that are delivered once more.
	Triggers int `yaml:"triggers"`
	// Sweeps, Gaps and Blobs are sweeps of the group, of its gaps and of staged objects.
	Sweeps int `yaml:"sweeps"`
	Gaps   int `yaml:"gaps"`
	Blobs  int `yaml:"blobs"`
	// Skips are skips of the scenario's effect.
	Skips int `yaml:"skips"`
	// Reads are pages that a reader reads of the log of group g. It continues at its offset.
	Reads int `yaml:"reads"`
	// Ticks are moves of the clock at any time.
	Ticks int `yaml:"ticks"`
	// Expiries are deletions of all expired records.
	Expiries int `yaml:"expiries"`
	// Copies are copies of the store, of which the last one counts. Restores are stops of the whole
	// system, after which the store is put back to the copy and everything is sent again.
	Copies   int `yaml:"copies"`
	Restores int `yaml:"restores"`
}

// Duration is parsed by time.ParseDuration.
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Load reads the scenarios of a folder whose names match a pattern of [path.Match], by name.
func Load(files fs.FS, pattern string) ([]*Scenario, error) {
	names, err := fs.Glob(files, pattern+".yaml")
	if err != nil {
		return nil, fmt.Errorf("load scenarios: %w", err)
	}
	var out []*Scenario
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("load scenario: %w", err)
		}
		s := &Scenario{Name: strings.TrimSuffix(path.Base(name), ".yaml")}
		if err := yaml.UnmarshalWithOptions(text, s, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("load scenario %s: %w", s.Name, err)
		}
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("load scenario %s: %w", s.Name, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// lined reports whether the HTTP API processes messages only with the first place in their group.
func (s *Scenario) lined() bool { return s.Direct && s.FIFO }

// placing reports whether messages are on their queue in the order in which they were put there.
func (s *Scenario) placing() bool { return s.lined() || s.Stream.Pool && s.FIFO }

func (s *Scenario) check() error {
	s.Batch, s.Receives, s.Stream.Destinations = max(s.Batch, 1), max(s.Receives, 1), max(s.Stream.Destinations, 1)
	for _, list := range [][]string{s.Issued, s.Done, s.Kept, s.Left, s.Arrive, s.Guard, s.Both, slices.Collect(maps.Keys(s.Dead))} {
		for _, name := range list {
			if _, ok := s.Messages[name]; !ok {
				return fmt.Errorf("no such message: %s", name)
			}
		}
	}
	for _, n := range s.Budget.numbers() {
		if n < 0 || n > math.MaxUint8 {
			return fmt.Errorf("a budget of %d", n)
		}
	}
	for _, name := range s.Ask {
		r, ok := s.Requests[name]
		if !ok {
			return fmt.Errorf("no such request: %s", name)
		}
		for _, m := range r.names() {
			if _, ok := s.Messages[m]; !ok && !r.ends() {
				return fmt.Errorf("request %s: no such message: %q", name, m)
			}
		}
	}
	if s.Stream.Asks > 0 && (s.Stream.Fails || s.Stream.Blob || s.Stream.Stateless || s.Stream.Pool) {
		return errors.New("a batch handler needs a stream with state, and makes no blobs; its calls may fail anyway")
	}
	if s.Budget.Restores > 0 && (s.Tick == 0 || len(s.Ask)+len(s.Guard) > 0) {
		return errors.New("restores need a tick, and neither requests nor leases")
	}
	if err := s.checkDelays(); err != nil {
		return err
	}
	if len(s.Arrive)+len(s.Ask)+len(s.Guard) == 0 {
		return errors.New("nothing arrives")
	}
	return nil
}

// message returns the message with a name, as received from a queue.
func (s *Scenario) message(name string) record.Message {
	if t, ok := parseTimer(name); ok {
		return s.timerMessage(t)
	}
	m := s.Messages[name]
	out := record.Message{
		Stream: stream, ID: m.ID, Group: m.Group, Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn, Parents: m.Parents, End: m.End, Void: m.Void,
		Body: []byte(m.Body), Headers: map[string]string{nameHeader: name},
	}
	if m.Accepted {
		out.Accepted = start()
	}
	if out.ID == "" && out.Source == "" {
		out.ID = name
	}
	switch {
	case s.Stream.Pool:
		return m.placed(out)
	case out.Group == "" && !s.Stream.Stateless && !s.Stream.Keep:
		out.Group = "g"
	}
	return out
}

// destinations returns the destinations of effects.
func (s *Scenario) destinations() []string {
	out := []string{destination}
	for i := 2; i <= s.Stream.Destinations; i++ {
		out = append(out, destination+strconv.Itoa(i))
	}
	return out
}

// groups returns the groups of the scenario's messages.
func (s *Scenario) groups() []record.GroupKey {
	var out []record.GroupKey
	for name := range s.Messages {
		m := s.message(name)
		if key := m.GroupKey(); !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, func(a, b record.GroupKey) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// minTries returns the least number of tries that the process function gives a message. Each call
// is made in a new process, which has seen no failure but its own.
func (s *Scenario) minTries() int {
	if s.Tries > 0 && s.Receives >= s.Tries {
		return 1
	}
	return record.MinTries
}
