package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/powertools"
	"github.com/effectively-once/once/internal/record"
)

func (a *app) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "migrate",
		Short:   "Copy what another library has remembered",
		Example: `  once migrate powertools --from idempotency --to charges-tokens --language python --middleware charges --dry-run`,
		Args:    unknownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.migratePowertools())
	return cmd
}

const migrateLong = `Powertools copies the idempotency records of Powertools for AWS Lambda from its DynamoDB table to a table of package oncedynamo. A Go service that uses
once.Middleware or a decorator on that table then answers every old key with its old reply: docs/howto.md, "Switch from Powertools".

It changes nothing in the table of Powertools, and no token that the new service has written. Repeat it as often as you like: it copies what has come
since. Run it while the old functions run, stop them, run it again, and start the new service. Do not let both serve at the same time: neither sees
what the other one runs.

  copied       the old reply is remembered until the record expires
  in progress  an execution that may still run: other attempts wait until its time is over, then one of them runs, as with Powertools
  there        copied before, or in a state that is as new
  newer        the new service has used the key: left as it is
  expired      the record has no effect any more
  abandoned    its execution has ended without a result: the next attempt runs
  other        of another function than --prefix
  failed       the record could not be read or written; standard error says why, and the exit code is 5

The keys of the table are PREFIX#HASH. --prefix selects those of one function. --stream names the stream of a decorator, --middleware the Name of a
middleware ('' if it has none); the principal is empty. A result that is an object with statusCode becomes that answer of HTTP, without cookies, every
other one a body of JSON; --reply decides otherwise. In a table with sort keys, --key-attr names the sort key.

A hash of the payload (payload_validation_jmespath) is not copied: for old keys the new service does not compare the content. It needs dynamodb:Scan on
the old table, and dynamodb:GetItem, PutItem and DeleteItem on the new one. It reads the whole old table, strongly consistent.`

// migration holds the arguments of migrate powertools.
type migration struct {
	powertools.Options
	to, stream, middleware string
	language, reply        string
	profile, region        string
	json                   bool
}

func (a *app) migratePowertools() *cobra.Command {
	var o migration
	cmd := &cobra.Command{
		Use:   "powertools --from TABLE --to TABLE --language LANGUAGE",
		Short: "Copy the records of Powertools for AWS Lambda to a table of tokens",
		Long:  migrateLong,
		Example: `  once migrate powertools --from idempotency --to charges-tokens --language python --middleware charges --dry-run
  once migrate powertools --from idempotency --to charges-tokens --language python --middleware charges --prefix charge.app.lambda_handler
  once migrate powertools --from idempotency --to jobs-tokens --language typescript --stream jobs --json`,
		Args: arguments(cobra.NoArgs),
	}
	f := cmd.Flags()
	f.StringVar(&o.Table, "from", "", "the table of Powertools")
	f.StringVar(&o.to, "to", "", "the table of tokens")
	f.StringVar(&o.language, "language", "", "the language of the functions: python, typescript or java")
	f.StringVar(&o.stream, "stream", "", "the stream of the messages that a decorator guards")
	f.StringVar(&o.middleware, "middleware", "", "the Name of the middleware; '' if it has none")
	f.StringVar(&o.Prefix, "prefix", "", "only records of this function: the part of the keys before '#'")
	f.StringVar(&o.reply, "reply", string(powertools.AutoReply), "what results are: http, json, or auto")
	f.StringVar(&o.Attributes.Key, "key-attr", "id", "the attribute with the key")
	f.StringVar(&o.Attributes.Status, "status-attr", "status", "the attribute with the status")
	f.StringVar(&o.Attributes.Expiry, "expiry-attr", "expiration", "the attribute with the expiry")
	f.StringVar(&o.Attributes.InProgressExpiry, "in-progress-expiry-attr", "in_progress_expiration", "the attribute with the expiry of an execution")
	f.StringVar(&o.Attributes.Data, "data-attr", "data", "the attribute with the result")
	f.BoolVar(&o.DryRun, "dry-run", false, "count, and write nothing")
	f.StringVar(&o.profile, "profile", "", "AWS profile; default by the environment")
	f.StringVar(&o.region, "region", "", "AWS region; default by the environment or the profile")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(cmd); err != nil {
			return usageError(cmd, err)
		}
		o.json = *asJSON
		return a.copyRecords(cmd.Context(), &o)
	}
	return cmd
}

// check completes the options.
func (o *migration) check(cmd *cobra.Command) error {
	decorator, middleware := cmd.Flags().Changed("stream"), cmd.Flags().Changed("middleware")
	o.Language, o.Reply = powertools.Language(o.language), powertools.Reply(o.reply)
	switch {
	case o.Table == "" || o.to == "":
		return errors.New("name both tables with --from and --to")
	case o.Table == o.to:
		return errors.New("--from and --to must be two tables")
	case decorator == middleware:
		return errors.New("name either the stream of a decorator with --stream, or the middleware with --middleware")
	case decorator:
		if err := record.ValidStream(o.stream); err != nil {
			return err
		}
		o.Scope = powertools.StreamScope(o.stream)
	default:
		o.Scope = powertools.MiddlewareScope(o.middleware)
	}
	return errors.Join(o.Language.Valid(), o.Reply.Valid())
}

func (a *app) copyRecords(ctx context.Context, o *migration) error {
	cfg, err := awsconfig.Load(ctx, config.WithSharedConfigProfile(o.profile), config.WithRegion(o.region))
	if err != nil {
		return err
	}
	client := dynamodb.NewFromConfig(cfg)
	store, err := dynamostore.New(client, dynamostore.Tables{Groups: o.to, Tokens: o.to}, dynamostore.Options{})
	if err != nil {
		return err
	}
	bar := a.progress(-1, "copying", "records")
	o.Read = func(n int) { _ = bar.Set(n) } // a closed terminal shows no progress
	o.Problem = func(key string, err error) {
		_, _ = fmt.Fprintf(a.err, "once: record %s: %v\n", safe(key), err)
	}
	counts, err := powertools.Migrate(ctx, client, store, o.Options)
	_ = bar.Finish()
	if err != nil && counts.Read == 0 {
		return migrationError(err)
	}
	if printed := a.printCounts(&counts, o); err == nil {
		err = unfinished(printed, counts.Failed)
	}
	return migrationError(err)
}

func (a *app) printCounts(c *powertools.Counts, o *migration) error {
	if o.json {
		return printJSON(a.out, struct {
			DryRun bool `json:"dry_run"`
			powertools.Counts
		}{o.DryRun, *c})
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{c.Copied, "copied"}, {c.Leased, "in progress"}, {c.Present, "there"}, {c.Newer, "newer"}, {c.Expired, "expired"}, {c.Abandoned, "abandoned"}, {c.Other, "other"}, {c.Failed, "failed"},
	} {
		parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
	}
	dry := ""
	if o.DryRun {
		dry = "; nothing was written"
	}
	_, err := fmt.Fprintf(a.out, "read %s: %s%s\n", plural(c.Read, "record"), strings.Join(parts, ", "), dry)
	return err
}

// migrationError adds the exit code to an error of DynamoDB.
func migrationError(err error) error {
	code, answered := errors.AsType[smithy.APIError](err)
	if !answered {
		return err
	}
	switch code.ErrorCode() {
	case "ResourceNotFoundException":
		return &exitError{exitUsage, err}
	case "AccessDeniedException":
		return &exitError{exitRefused, err}
	}
	return err
}
