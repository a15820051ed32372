// Command drift compares the templates of a deployed CDK app with the deployed resources, and fails
// on an unexpected difference, because an emulator silently drops properties that it does not
// support.
//
//	go run ./drift -app ../.tools/deploy/cdk.out -expected ../localstack/drift/localstack.txt
//
// It compares every property of tables, queues, functions, event source mappings, buckets, alarms,
// log groups and rules that their services report, and the existence of all other resources. The
// endpoint and credentials are those of every AWS tool.
//
// With -cut it compares nothing, but copies the app to a folder, without the resources of the types
// that the emulator refuses, so that the rest can be deployed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
)

func main() {
	app := flag.String("app", "cdk.out", "the folder of the synthesized `app`")
	list := flag.String("expected", "", "the `file` of differences that are expected")
	to := flag.String("cut", "", "copy the app to this `folder`, without the types that can't be made")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *app, *list, *to); err != nil {
		fmt.Fprintln(os.Stderr, "drift:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, app, list, to string) error {
	known, err := readExpected(list)
	if err != nil {
		return err
	}
	if to != "" {
		return cut(app, to, known)
	}
	stacks, err := readStacks(app)
	if err != nil {
		return err
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("load AWS configuration: %w", err)
	}
	a := newAccount(cfg)
	all := report{expected: known}
	for _, s := range stacks {
		r, err := a.compare(ctx, s)
		if err != nil {
			return fmt.Errorf("compare stack %s: %w", s.name, err)
		}
		all.add(r)
	}
	return all.print(out)
}
