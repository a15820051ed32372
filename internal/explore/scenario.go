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

// A Scenario is what is explored: what arrives, who works on it, and how much may go wrong. All of it is tried in every order.
type Scenario struct {
	// Name is the name of its file.
	Name string `yaml:"-"`
	// About says in a sentence what the scenario is after.
	About string `yaml:"about"`

	Stream   Stream             `yaml:"stream"`
	Messages map[string]Message `yaml:"messages"`
	Requests map[string]Request `yaml:"requests"`
	// Issued names the messages whose tokens are issued at the start.
	Issued []string `yaml:"issued"`
	// Arrive names the messages on the ingress queue at the start; one that is named twice is delivered twice, at any time.
	Arrive []string `yaml:"arrive"`
	// Ask names the requests that clients repeat until they have an answer; as Arrive.
	Ask []string `yaml:"ask"`
	// Guard names the messages that a leased consumer receives, in place of the process function; as Arrive.
	Guard []string `yaml:"guard"`
	// FIFO says that the ingress queue gives messages out in their order, one batch of a group at a time, as long as no worker dies.
	FIFO bool `yaml:"fifo"`
	// Impatient says that clients do not ask again when their answer is lost.
	Impatient bool `yaml:"impatient"`
	// Batch is how many messages one delivery holds at most. Defaults to 1.
	Batch   int     `yaml:"batch"`
	Workers Workers `yaml:"workers"`
	Budget  Budget  `yaml:"budget"`
	// Tick is by how much the clock moves on at once.
	Tick Duration `yaml:"tick"`
	// Deadline is how long a worker lives at most: time does not pass beyond it. 0 is for ever. What systems remember must outlive their workers.
	Deadline Duration `yaml:"deadline"`
	// Waits says that time passes as long as a lease runs and nobody works.
	Waits bool `yaml:"waits"`
	// Bound ends the exploration after so many states; 0 is no bound.
	Bound int `yaml:"bound"`
	// Dead names the messages that may end as dead letters in place of being applied, and for which reasons.
	Dead map[string][]record.Reason `yaml:"dead"`
	// Both names those that may be dead letters and applied as well: see "What it can't promise" in docs/correctness.md.
	Both []string `yaml:"both"`
	// Hurries says that the time of a worker may be over when it is about to try again, as a call that fails.
	Hurries bool `yaml:"hurries"`
	// Receives is how often the queue says that it has delivered a message, and Tries how often the process function lets a handler fail then. Default to 1 and to what the
	// function does by default.
	Receives int `yaml:"receives"`
	Tries    int `yaml:"tries"`
	// Room is how many pending entries a group's record takes; 0 is any number.
	Room int `yaml:"room"`
	// Forgets says that records expire while messages are still about, so that one may be applied again.
	Forgets bool `yaml:"forgets"`
}

// Stream is the stream of a scenario, and what its handler does with each message.
type Stream struct {
	Admission record.Admission `yaml:"admission"`
	Stateless bool             `yaml:"stateless"`
	Effects   int              `yaml:"effects"`
	// Fails says that the handler may fail, as a call that reads.
	Fails          bool             `yaml:"fails"`
	Reply          bool             `yaml:"reply"`
	Blob           bool             `yaml:"blob"`
	Retention      Duration         `yaml:"retention"`
	GroupRetention Duration         `yaml:"group-retention"`
	Gap            record.GapPolicy `yaml:"gap"`
	After          Duration         `yaml:"after"`
	// Distance bounds how far ahead a message may be held. Defaults to that of streams.
	Distance uint64 `yaml:"distance"`
	// Sequenced makes the destinations ones whose deliveries are numbered without gaps.
	Sequenced bool `yaml:"sequenced"`
	// Destinations is how many each effect goes to. Defaults to 1.
	Destinations int `yaml:"destinations"`
	// Events says that the destinations are told of skipped numbers.
	Events bool `yaml:"events"`
}

// Message is a message of a scenario. Its id defaults to its name in the scenario, its group to "g".
type Message struct {
	ID        string            `yaml:"id"`
	Group     string            `yaml:"group"`
	Source    string            `yaml:"source"`
	Epoch     uint64            `yaml:"epoch"`
	Sequence  uint64            `yaml:"sequence"`
	DependsOn map[string]uint64 `yaml:"depends-on"`
	Body      string            `yaml:"body"`
	// Rejected says that the handler refuses it for good, Refused that the destinations refuse its effects, Large that no record takes what it does.
	Rejected bool `yaml:"rejected"`
	Refused  bool `yaml:"refused"`
	Large    bool `yaml:"large"`
	// Accepted says that the front door noted when it came: at the start.
	Accepted bool `yaml:"accepted"`
}

// Request is an HTTP request of a scenario.
type Request struct {
	// Do is the method and the path.
	Do string `yaml:"do"`
	// Message names the message that the request is about.
	Message string            `yaml:"message"`
	Header  map[string]string `yaml:"header"`
	Body    string            `yaml:"body"`
}

// Workers is how many of a kind work at the same time.
type Workers struct {
	Process int `yaml:"process"`
	Publish int `yaml:"publish"`
	HTTP    int `yaml:"http"`
	Sweep   int `yaml:"sweep"`
	Guard   int `yaml:"guard"`
}

// Budget is how often each thing may go wrong, or happen by itself, in one run.
type Budget struct {
	// Failures are calls that fail, before they are applied or after.
	Failures int `yaml:"failures"`
	// Deaths are workers that die between two calls, or in one.
	Deaths int `yaml:"deaths"`
	// Late are writes that are reported as failed and are applied at any later time.
	Late int `yaml:"late"`
	// Lapses are deliveries whose time is over while their worker goes on: the queue delivers the message once more, and may or may not take the late acknowledgement for that.
	Lapses int `yaml:"lapses"`
	// Redrives are dead letters that somebody puts back.
	Redrives int `yaml:"redrives"`
	// Triggers are triggers that are delivered once more.
	Triggers int `yaml:"triggers"`
	// Sweeps, Gaps and Blobs are sweeps of the group, of its gaps and of staged objects.
	Sweeps int `yaml:"sweeps"`
	Gaps   int `yaml:"gaps"`
	Blobs  int `yaml:"blobs"`
	// Ticks are moves of the clock at any time.
	Ticks int `yaml:"ticks"`
	// Expiries are deletions of all records that have expired.
	Expiries int `yaml:"expiries"`
}

// Duration reads what time.ParseDuration reads.
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

func (s *Scenario) check() error {
	s.Batch, s.Receives, s.Stream.Destinations = max(s.Batch, 1), max(s.Receives, 1), max(s.Stream.Destinations, 1)
	for _, list := range [][]string{s.Issued, s.Arrive, s.Guard, s.Both, slices.Collect(maps.Keys(s.Dead))} {
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
		if _, ok := s.Messages[r.Message]; !ok {
			return fmt.Errorf("request %s: no such message: %q", name, r.Message)
		}
	}
	if len(s.Arrive)+len(s.Ask)+len(s.Guard) == 0 {
		return errors.New("nothing arrives")
	}
	return nil
}

// message is the message of a name, as it comes off a queue.
func (s *Scenario) message(name string) record.Message {
	m := s.Messages[name]
	out := record.Message{
		Stream: stream, ID: m.ID, Group: m.Group, Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn,
		Body: []byte(m.Body), Headers: map[string]string{nameHeader: name},
	}
	if m.Accepted {
		out.Accepted = start()
	}
	if out.ID == "" && out.Source == "" {
		out.ID = name
	}
	if out.Group == "" && !s.Stream.Stateless {
		out.Group = "g"
	}
	return out
}

// destinations lists where effects go.
func (s *Scenario) destinations() []string {
	out := []string{destination}
	for i := 2; i <= s.Stream.Destinations; i++ {
		out = append(out, destination+strconv.Itoa(i))
	}
	return out
}

// groups lists the groups of the scenario's messages.
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
