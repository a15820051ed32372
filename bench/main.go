// Command bench compares the embedded system, the deployed functions and the engine on DynamoDB
// with baselines in one run, and prints ratios, because absolute times depend on the machine. Each
// comparison runs both sides in turn, for several rounds, and prints the median of the rounds'
// ratios.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// A benchmark prints its results.
type benchmark struct {
	name, what string
	run        func(ctx context.Context, o options) error
	// needs is an environment variable without which the benchmark is left out, unless it is named
	// on the command line.
	needs string
}

type options struct {
	rounds   int
	duration time.Duration
	messages int
	dir      string
}

func benchmarks() []benchmark {
	return []benchmark{
		{"engine", "engine on Pebble beside raw synced Pebble writes of the same bytes", engine, ""},
		{"http", "HTTP 202 beside a bare net/http server that does one synced Pebble put", httpAccept, ""},
		{"pipeline", "end to end, HTTP in to file out", pipeline, ""},
		{"identities", "cost and memory with many identities remembered", identities, ""},
		{"functions", "the deployed functions' size, and their start beside one that does nothing", functions, ""},
		{"dynamodb", "engine on DynamoDB beside Powertools for AWS Lambda, which it installs", dynamo, endpointVariable},
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	only := flag.String("only", "", "comma-separated benchmarks to run; default all")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each comparison")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "time of one side of one round")
	flag.IntVar(&o.messages, "messages", 100_000, "messages of the pipeline benchmark")
	flag.StringVar(&o.dir, "dir", "", "folder for databases; default the system's temporary one. Not a memory disk: syncs must be real")
	flag.Parse()
	wanted := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	if i := slices.IndexFunc(wanted, unknown); i >= 0 {
		return fmt.Errorf("no such benchmark: %s", wanted[i])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, b := range benchmarks() {
		if len(wanted) > 0 && !slices.Contains(wanted, b.name) {
			continue
		}
		fmt.Printf("%s: %s\n", b.name, b.what)
		if b.needs != "" && os.Getenv(b.needs) == "" && len(wanted) == 0 {
			fmt.Printf("  left out: %s is not set; localstack/aws.sh run make bench\n\n", b.needs)
			continue
		}
		if err := b.run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		fmt.Println()
	}
	return nil
}

func unknown(name string) bool {
	return !slices.ContainsFunc(benchmarks(), func(b benchmark) bool { return b.name == name })
}

// median returns the median of a few figures.
func median(figures []float64) float64 {
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// A side is one of two compared things: it works for a time and returns its rate.
type side func(ctx context.Context, d time.Duration) (perSecond float64, err error)

// compare runs two sides in turn and prints the median rates and the median ratio.
func compare(ctx context.Context, o options, name string, ours, baseline side, atLeast float64) error {
	var rates, bases, ratios []float64
	for range o.rounds {
		base, err := baseline(ctx, o.duration)
		if err != nil {
			return fmt.Errorf("baseline: %w", err)
		}
		rate, err := ours(ctx, o.duration)
		if err != nil {
			return err
		}
		rates, bases, ratios = append(rates, rate), append(bases, base), append(ratios, rate/base)
	}
	low, high := slices.Min(ratios), slices.Max(ratios)
	fmt.Printf("  %-52s %8.0f/s  baseline %8.0f/s  ratio %6.2f (%.2f–%.2f), to hold %.2f\n", name, median(rates), median(bases), median(ratios), low, high, atLeast)
	return nil
}
