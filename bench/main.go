// Command bench compares the embedded system and the deployed functions with what they are built on
// and with other systems, in one run. Rates depend on the machine and on its load, so they are
// compared only as ratios within a round, in which each subject works in turn; the CPU time and the
// allocations of a message are comparable between runs.
//
//	go -C bench run . -only engine -rounds 3 -duration 1s
//
//	main.go       arguments and rounds
//	subject.go    a measured process and its figures
//	subjects.go   the list of subjects
//	aims.go       the table of the aims
//	floors.go engine.go http.go client.go jetstream.go   how each subject works
//	identities.go memory with many identities
//	functions.go  size and start of the deployed functions
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/bench/table"
)

type options struct {
	only       []string
	rounds     int
	duration   time.Duration
	identities int
	dir        string
	json       bool
	// Set for the processes that this program starts of itself.
	subject, client string
}

func main() {
	var o options
	only := flag.String("only", "engine,log,order,http,functions", "comma-separated parts to run: engine, log, order, http, functions, identities (minutes)")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds, in each of which every subject is measured once")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "time of a subject in a round")
	flag.IntVar(&o.identities, "identities", 10_000_000, "identities to remember in the part identities")
	flag.StringVar(&o.dir, "dir", "", "folder for databases; default the system's temporary one. Not a memory disk: syncs must be real")
	flag.BoolVar(&o.json, "json", false, "print JSON in place of tables, with every sample")
	flag.StringVar(&o.subject, "subject", "", "used by bench itself: measure this subject when told to")
	flag.StringVar(&o.client, "client", "", "used by bench itself: send as this client")
	flag.Parse()
	o.only = strings.Split(*only, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	all := slices.Concat(engineSubjects(), logSubjects(), orderSubjects(), httpSubjects())
	i := slices.IndexFunc(all, func(s subject) bool { return s.name == o.subject })
	switch {
	case o.client != "":
		return send(ctx, o.client, os.Stdout)
	case i >= 0:
		return serve(ctx, all[i], o.dir, os.Stdin, os.Stdout)
	case o.subject != "":
		return fmt.Errorf("no such subject: %s", o.subject)
	case o.rounds < 1:
		return errors.New("-rounds must be at least 1")
	}
	var subjects []subject
	parts := map[string]func(context.Context, options) error{"functions": functions, "identities": identities}
	for _, name := range o.only {
		switch {
		case name == "engine":
			subjects = append(subjects, engineSubjects()...)
		case name == "log":
			subjects = append(subjects, logSubjects()...)
		case name == "order":
			subjects = append(subjects, orderSubjects()...)
		case name == "http":
			subjects = append(subjects, httpSubjects()...)
		case parts[name] == nil:
			return fmt.Errorf("no such part: %q", name)
		}
	}
	if len(subjects) > 0 {
		if err := compare(ctx, o, subjects); err != nil {
			return err
		}
	}
	for _, name := range o.only {
		if part := parts[name]; part != nil {
			if err := part(ctx, o); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// compare measures all subjects in turn, in every round, and prints the tables.
func compare(ctx context.Context, o options, subjects []subject) (err error) {
	var processes []*child
	defer func() {
		for _, p := range processes {
			err = errors.Join(err, p.end())
		}
	}()
	for _, s := range subjects {
		p, err := start(ctx, s, o.dir)
		if err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
		processes = append(processes, p)
	}
	rounds := make([]round, o.rounds)
	for i := range rounds {
		rounds[i] = round{}
		for n, p := range processes {
			took, err := p.measure(o.duration)
			if err != nil {
				return err
			}
			rounds[i][p.name] = took
			fmt.Fprintf(os.Stderr, "%3d of %d  %-62s %9s/s %8s µs\n", i*len(processes)+n+1, o.rounds*len(processes), p.name, table.Digits(took.Rate), table.Digits(took.CPU))
		}
	}
	return o.report(rounds, subjects)
}

func (o options) report(rounds []round, subjects []subject) error {
	verdicts, _ := judge(rounds)
	if o.json {
		return o.print(struct {
			Aims   []verdict `json:"aims"`
			Rounds []round   `json:"rounds"`
		}{verdicts, rounds})
	}
	return errors.Join(aimTable(rounds).Write(os.Stdout), subjectTable(rounds, subjects).Write(os.Stdout))
}

func (options) print(x any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(x)
}
