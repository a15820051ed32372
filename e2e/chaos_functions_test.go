package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/e2e/chaos"
)

// chaosHosts is the number of local Lambda hosts that share the tables and queues: while one is
// stalled, the other continues its work.
const chaosHosts = 2

// A functionsTarget is the functions as processes under several hosts, on the DynamoDB and SQS of
// the environment, with proxies between.
type functionsTarget struct {
	*deployment // the first host
	hosts       []*server
	random      *rand.Rand
	functions   string // their folder
	toStore     *cutter
	toQueues    *cutter
}

// newFunctionsTarget prepares hosts that kill functions, make them hang and duplicate deliveries.
func newFunctionsTarget(t *testing.T, r *chaosRun) *functionsTarget {
	t.Helper()
	d := newDeployment(t, &r.scribe.receiver)
	folder, err := chaosFunctions()
	must(t, err)
	x := &functionsTarget{deployment: d, random: newChaosRandom(r.random), functions: folder}
	x.toStore = newCutter(t, r.plan.cut, os.Getenv("AWS_ENDPOINT_URL_DYNAMODB"))
	x.toQueues = newCutter(t, r.plan.cut, os.Getenv("AWS_ENDPOINT_URL_SQS"))
	for i := range chaosHosts {
		s := d.server
		if i > 0 {
			s = newHost(t, "")
		}
		must(t, s.configure(chaosTo(r.scribe.url, "")))
		s.args = append([]string{"--functions", folder, "--name", d.name, "--sweep-every", "20s"}, calm...)
		// while one batch waits for a killed function, the others continue
		s.args = append(s.args, "--batches", "4", "--requests", "16")
		s.args = append(s.args, "--kill-every", "1s", "--duplicate", "0.1", "--hang", "0.003")
		s.env = []string{r.scribe.env(), "AWS_ENDPOINT_URL_DYNAMODB=" + x.toStore.url, "AWS_ENDPOINT_URL_SQS=" + x.toQueues.url, "CHAOS_CLOCK=" + s.path("clock")}
		x.hosts = append(x.hosts, s)
	}
	t.Cleanup(func() { must(t, x.bury()) })
	return x
}

// calm are the time limits of a host without faults: a stall can exceed the visibility timeout.
var calm = []string{"--timeout", "5s", "--visibility", "7s"}

func (x *functionsTarget) start() error {
	for _, s := range x.hosts {
		if err := startUntilWell(s); err != nil {
			return err
		}
	}
	return nil
}

// startUntilWell starts a host, and retries, because its first calls may be cut like any other.
func startUntilWell(s *server) (err error) {
	for range 10 {
		if err = s.start(); err == nil {
			return nil
		}
	}
	return err
}

func (x *functionsTarget) faults() []chaosFault {
	return []chaosFault{
		{"host killed", 8, x.hostKilled},
		{"host and functions stalled", 2, x.treeStalled},
		{"function stalled", 4, x.functionStalled},
		{"clock forward", 2, func(context.Context) error { return x.jump(time.Duration(1+x.random.IntN(600)) * time.Second) }},
		{"clock back", 2, func(context.Context) error { return x.jump(-time.Duration(1+x.random.IntN(600)) * time.Second) }},
	}
}

// any returns one of the hosts.
func (x *functionsTarget) any() *server { return x.hosts[x.random.IntN(len(x.hosts))] }

// jump sets the clock of one host's functions.
func (x *functionsTarget) jump(ahead time.Duration) error {
	return setClock(x.any().path("clock"), ahead)
}

// hostKilled kills a host. Its functions finish their current invocation without it, and end when
// they ask for the next one; some are killed with it.
func (x *functionsTarget) hostKilled(context.Context) error {
	s := x.any()
	if p := s.life(); p.over() {
		return fmt.Errorf("the host ended by itself: %v\n%s", p.cmd.ProcessState, s.lastWords())
	}
	functions, err := x.of(s)
	if err != nil {
		return err
	}
	if err := s.kill(); err != nil {
		return err
	}
	for _, p := range functions {
		if x.random.IntN(2) == 0 {
			_ = p.Kill() // it may have ended with its host
		}
	}
	return startUntilWell(s)
}

// treeStalled stops a host and all its functions for longer than the visibility timeout of their
// messages: other functions receive them, and the stopped ones continue with stale data.
func (x *functionsTarget) treeStalled(ctx context.Context) error {
	s := x.any()
	functions, err := x.of(s)
	if err != nil {
		return err
	}
	return stall(ctx, chaosStall, append(functions, s.life().cmd.Process)...)
}

// functionStalled stops one function for about the time limit of an invocation.
func (x *functionsTarget) functionStalled(ctx context.Context) error {
	functions, err := x.of(x.any())
	if err != nil || len(functions) == 0 {
		return err
	}
	return stall(ctx, time.Second+rand.N(5*time.Second), functions[x.random.IntN(len(functions))])
}

// of returns the functions that are children of a host.
func (x *functionsTarget) of(s *server) ([]*os.Process, error) {
	parent := s.life().cmd.Process.Pid
	return x.processes(func(ppid int) bool { return ppid == parent })
}

// processes returns the functions of this target whose parent satisfies of.
func (x *functionsTarget) processes(of func(ppid int) bool) ([]*os.Process, error) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var out []*os.Process
	for _, e := range entries {
		exe, err := os.Readlink(e + "/exe")
		if err != nil || !strings.HasPrefix(exe, x.functions+"/") {
			continue // another target's, or gone
		}
		stat, err := os.ReadFile(e + "/stat")
		if err != nil {
			continue // gone
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		ppid, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		if !of(ppid) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(e))
		if err != nil {
			return nil, err
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// bury ends functions whose host has ended, and that can't notice it because they hang.
func (x *functionsTarget) bury() error {
	hosts := map[int]bool{}
	for _, s := range x.hosts {
		if p := s.life(); p != nil && !p.over() {
			hosts[p.cmd.Process.Pid] = true
		}
	}
	orphans, err := x.processes(func(ppid int) bool { return !hosts[ppid] })
	for _, p := range orphans {
		if e := p.Signal(syscall.SIGKILL); !errors.Is(e, os.ErrProcessDone) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// peace drains all hosts, and restarts them without faults. It returns the numbers of faults that
// the hosts reported at their end; killed hosts report none.
func (x *functionsTarget) peace(t *testing.T) map[string]int {
	t.Helper()
	x.toStore.heal()
	x.toQueues.heal()
	counts := map[string]int{}
	for _, s := range x.hosts {
		for name, n := range (&deployment{server: s}).peace(t) {
			counts["functions' "+name+" by their hosts"] += n
		}
	}
	must(t, x.bury())
	return counts
}

func chaosOnFunctions(t *testing.T, plan chaosPlan) *chaos.Verdict {
	t.Helper()
	r := newChaosRun(t, plan)
	for _, stream := range chaosStreams {
		r.Destinations[stream] = []string{"posts"}
	}
	x := newFunctionsTarget(t, r)
	x.toStore.cut()
	x.toQueues.cut()
	must(t, x.start())
	var urls []string
	for _, s := range x.hosts {
		urls = append(urls, s.url())
	}
	front := newCutter(t, r.plan.cut, urls...)
	toSQS := newCutter(t, r.plan.cut, os.Getenv("AWS_ENDPOINT_URL_SQS"))
	client := newSQSClient(t, toSQS.url)
	senders := map[string]*sqsSender{}
	for _, stream := range chaosStreams {
		senders[stream] = &sqsSender{client: client, stream: stream, urls: map[string]*string{"ingress": x.queue(t, "-ingress"), "ingress.fifo": x.queue(t, "-ingress.fifo")}}
	}
	st := newStorm(r.random, *chaosEvery, x.faults()...)
	front.cut()
	toSQS.cut()
	r.weather(t, front, senders, st)
	front.heal()
	byHosts := x.peace(t)
	r.settle(t, func() (undone, error) {
		left, err := x.leftovers(t)
		return undone{left: left}, err // a sweep may still finish it
	})
	must(t, r.clients.ask(t.Context(), r.folder))
	x.letters(t, r)
	// hosts report only the faults since their last start
	maps.DeleteFunc(byHosts, func(_ string, n int) bool { return n == 0 })
	return r.verdict(t, st.counts(), byHosts, map[string]int{
		"client calls cut": int(front.cuts.Load() + toSQS.cuts.Load()), "DynamoDB calls cut": int(x.toStore.cuts.Load()), "SQS calls cut": int(x.toQueues.cuts.Load()),
	})
}

// letters receives the dead letters, and writes them down.
func (x *functionsTarget) letters(t *testing.T, r *chaosRun) {
	t.Helper()
	var all []letter
	for _, name := range []string{"-ingress-dead", "-ingress-dead.fifo", "-publish-dead", "-publish-dead.fifo"} {
		messages, err := receiveAll(t.Context(), x.sqs, x.queue(t, name))
		must(t, err)
		for _, m := range messages {
			all = append(all, deadLetterOf(m))
		}
	}
	r.bury(t, all)
}
