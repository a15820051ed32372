package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/e2e/chaos"
)

// chaosTo returns the configuration of a chaos run. Many messages can be held, because clients run
// far ahead while the server is down.
func chaosTo(url, file string) string {
	ledger, to := "", "receiver"
	if file != "" {
		ledger, to = "\n  ledger:   {file: "+file+"}", "ledger, receiver"
	}
	return `
streams:
  keyed:    {admission: key, destinations: [` + to + `]}
  loose:    {admission: key, order: none, destinations: [` + to + `]}
  issued:   {admission: token, destinations: [` + to + `]}
  numbered: {admission: sequence, held: {count: 100000, bytes: 1GB, distance: 1000000}, destinations: [` + to + `]}
destinations:
  receiver: {webhook: "` + url + `", secret: "env:E2E_WEBHOOK_SECRET"}` + ledger + "\n"
}

// An embeddedTarget is one process of the product, with all faults that can be injected into it.
type embeddedTarget struct {
	*server
	random *rand.Rand
	clock  string // the file with the offset of its clock
	ledger string // the file to which it writes effects
}

// chaosStall exceeds the longest receive of a poller in chaos builds, 8 s, and its time limit for a
// batch, 6 s.
const chaosStall = 10 * time.Second

func (x *embeddedTarget) faults() []chaosFault {
	return []chaosFault{
		{"server killed", 30, x.killed},
		{"server stalled", 1, x.stalled},
		{"disk filled", 3, x.filled},
		{"clock forward", 2, func(context.Context) error { return x.jump(time.Duration(1+x.random.IntN(12000)) * time.Millisecond) }},
		{"clock back", 2, func(context.Context) error { return x.jump(-time.Duration(1+x.random.IntN(12000)) * time.Millisecond) }},
	}
}

// alive returns an error if the process has ended by itself.
func (x *embeddedTarget) alive() error {
	if p := x.life(); p.over() {
		return fmt.Errorf("the server ended by itself: %v\n%s", p.cmd.ProcessState, x.lastWords())
	}
	return nil
}

func (x *embeddedTarget) killed(ctx context.Context) error {
	if err := x.alive(); err != nil {
		return err
	}
	if err := x.kill(); err != nil {
		return err
	}
	if x.random.IntN(4) == 0 { // kill it once more while it starts
		if _, err := x.launch(); err != nil {
			return err
		}
		if err := errors.Join(sleep(ctx, rand.N(200*time.Millisecond)), x.kill()); err != nil {
			return err
		}
	}
	return x.start()
}

func (x *embeddedTarget) stalled(ctx context.Context) error {
	if err := x.alive(); err != nil {
		return err
	}
	return stall(ctx, chaosStall, x.life().cmd.Process)
}

// stall stops processes for a time. It ignores those that have ended meanwhile.
func stall(ctx context.Context, d time.Duration, processes ...*os.Process) error {
	for _, p := range processes {
		if err := p.Signal(syscall.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	err := sleep(ctx, d)
	for _, p := range processes {
		if e := p.Signal(syscall.SIGCONT); !errors.Is(e, os.ErrProcessDone) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// filled makes every write fail that would make a file exceed a limit, and truncates the write that
// crosses it, like a full disk or a full quota, but for this process alone. The database then ends
// the process. While the disk is full, it must either not start, or start and work.
func (x *embeddedTarget) filled(ctx context.Context) error {
	if err := x.alive(); err != nil {
		return err
	}
	limit, err := x.room()
	if err != nil {
		return err
	}
	if err := limitFiles(x.life().cmd.Process.Pid, limit); err != nil {
		return err
	}
	if err := sleep(ctx, rand.N(3*time.Second)); err != nil {
		return err
	}
	if x.random.IntN(2) == 0 && x.life().over() {
		if err := x.startFull(ctx, limit); err != nil {
			return err
		}
	}
	if err := limitFiles(x.life().cmd.Process.Pid, "unlimited"); err == nil && !x.life().over() && x.random.IntN(2) == 0 {
		// there is space again, and it must continue; it may have been about to end
		if err := sleep(ctx, time.Second); err != nil || !x.life().over() {
			return err
		}
	}
	return errors.Join(x.kill(), x.start())
}

// room returns the size limit for files: about the size of the output, or of a log of the database,
// or zero.
func (x *embeddedTarget) room() (string, error) {
	switch x.random.IntN(4) {
	case 0:
		return "0", nil
	case 1:
		return strconv.Itoa(x.random.IntN(1 << 20)), nil
	}
	var length int64
	switch info, err := os.Stat(x.ledger); {
	case err == nil:
		length = info.Size()
	case !errors.Is(err, fs.ErrNotExist): // no effect was written yet
		return "", err
	}
	return strconv.FormatInt(length+int64(x.random.IntN(4096)), 10), nil
}

// startFull starts the process while its disk is still full.
func (x *embeddedTarget) startFull(ctx context.Context, limit string) error {
	p, err := x.launch()
	if err != nil {
		return err
	}
	_ = limitFiles(p.cmd.Process.Pid, limit) // it may have ended already
	return sleep(ctx, rand.N(time.Second))
}

func limitFiles(pid int, limit string) error {
	out, err := exec.Command("prlimit", "--pid", strconv.Itoa(pid), "--fsize="+limit+":unlimited").CombinedOutput()
	if err != nil {
		return fmt.Errorf("prlimit, of util-linux: %w: %s", err, out)
	}
	return nil
}

// jump sets the clock ahead, or back.
func (x *embeddedTarget) jump(ahead time.Duration) error { return setClock(x.clock, ahead) }

func setClock(path string, ahead time.Duration) error {
	err := os.WriteFile(path+".new", []byte(strconv.FormatInt(ahead.Milliseconds(), 10)), 0o600)
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// chaosEmbedded runs a binary under some of the faults.
func chaosEmbedded(t *testing.T, plan chaosPlan, binary func() (string, error), faults func(*embeddedTarget) []chaosFault) *chaos.Verdict {
	t.Helper()
	r := newChaosRun(t, plan)
	x := &embeddedTarget{random: newChaosRandom(r.random), ledger: r.path("ledger.jsonl")}
	x.server = newServer(t, binary, chaosTo(r.scribe.url, x.ledger))
	s := x.server
	x.clock = s.path("clock")
	s.env = []string{r.scribe.env(), "CHAOS_CLOCK=" + x.clock}
	must(t, s.start())
	front := newCutter(t, plan.cut, s.url())
	senders := map[string]*sqsSender{}
	for _, stream := range chaosStreams {
		senders[stream] = newSQSSender(t, &server{address: front.url[len("http://"):]}, stream)
		senders[stream].urls[stream], senders[stream].urls[stream+".fifo"] = nil, nil
	}
	st := newStorm(r.random, *chaosEvery, faults(x)...)
	front.cut()
	r.weather(t, front, senders, st)
	front.heal()
	must(t, x.alive(), x.jump(0))
	r.settle(t, s.undone)
	must(t, r.clients.ask(t.Context(), r.folder))
	letters, err := s.deadLetters()
	must(t, err)
	r.bury(t, letters)
	must(t, s.stop())
	left, err := s.undone() // once more, from its folder alone
	must(t, err)
	r.Left = append(r.Left, left.left...)
	return r.verdict(t, st.counts(), map[string]int{"client calls cut": int(front.cuts.Load())})
}

// undone returns the work that a server has left.
func (s *server) undone() (undone, error) {
	var st depths
	if err := s.show(&st); err != nil {
		return undone{}, err
	}
	return st.undone(), nil
}

// depths are the totals, and the lengths of the queues.
type depths struct {
	stats
	Queues []struct {
		Queue    string `json:"queue"`
		Visible  int    `json:"visible"`
		InFlight int    `json:"in_flight"`
	} `json:"queues"`
}

// undone ignores dead letters, and the delayed triggers that check, 15 minutes after a refusal,
// whether a commit was applied: if nothing is pending, they find nothing.
func (d depths) undone() undone {
	st := d.stats
	st.DeadLetters, st.Idle = 0, false
	for _, q := range d.Queues {
		if q.Queue == "publish" && st.Pending == 0 {
			st.Queued -= q.Visible + q.InFlight
		}
	}
	if st == (stats{}) {
		return undone{}
	}
	return undone{left: []string{fmt.Sprintf("%+v", d)}, stuck: st.Queued+st.Delayed == 0}
}

func TestATriggerIsNoWorkIfNothingIsPending(t *testing.T) {
	for text, done := range map[string]bool{
		`{"queued":2,"dead_letters":1,"queues":[{"queue":"publish","visible":1,"in_flight":1}]}`:       true,
		`{"queued":1,"pending":1,"queues":[{"queue":"publish","visible":1}]}`:                          false,
		`{"queued":2,"queues":[{"queue":"publish","visible":1},{"queue":"ingress.fifo","visible":1}]}`: false,
		`{"held":1,"idle":false}`: false,
		`{"delayed":1}`:           false,
		`{"idle":true}`:           true,
	} {
		var d depths
		must(t, json.Unmarshal([]byte(text), &d))
		if got := d.undone(); (len(got.left) == 0) != done {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
