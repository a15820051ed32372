package deployed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	onceconfig "github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/system/function/environment"
)

// Verdict is the result of one check.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Wrong   Verdict = "wrong"
	Unknown Verdict = "unknown" // the check itself failed
)

// A Finding is the result of one check of one resource. The field names are a contract.
type Finding struct {
	// Resource is a table, a queue or a function by its name, or an output.
	Resource string  `json:"resource"`
	Check    string  `json:"check"`
	Verdict  Verdict `json:"verdict"`
	// Detail names the found and the expected value if they differ.
	Detail string `json:"detail,omitempty"`
}

// A report collects findings.
type report []Finding

// expect adds a finding: ok, or wrong with the text as its detail.
func (r *report) expect(ok bool, resource, check, format string, args ...any) {
	f := Finding{Resource: resource, Check: check, Verdict: OK}
	if !ok {
		f.Verdict, f.Detail = Wrong, fmt.Sprintf(format, args...)
	}
	*r = append(*r, f)
}

func (r *report) unknown(resource, check string, err error) {
	*r = append(*r, Finding{resource, check, Unknown, err.Error()})
}

// Check compares every part of the stack with the needs of a system of once, and the configuration
// of the functions with each other. It only reads. If a part can't be read, that is a
// finding too; it returns an error only if the context has ended.
func (s *Stack) Check(ctx context.Context) ([]Finding, error) {
	var r report
	r.expect(true, s.Name, "outputs", "")
	for _, table := range []string{s.Outputs.GroupsTable, s.Outputs.TokensTable} {
		s.checkTable(ctx, &r, table)
	}
	functions, err := s.functions(ctx)
	if err != nil {
		r.unknown(s.Name, "functions", err)
	}
	s.checkQueues(ctx, &r, s.checkMappings(ctx, &r, functions))
	s.checkFunctions(ctx, &r, functions)
	return r, context.Cause(ctx)
}

func (s *Stack) checkTable(ctx context.Context, r *report, name string) {
	out, err := s.dynamodb.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	var missing *types.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		r.expect(false, name, "table", "there is no such table")
		return
	case err != nil:
		r.unknown(name, "table", explain(err))
		return
	}
	r.expect(out.Table.TableStatus == types.TableStatusActive, name, "table", "is %s, not ACTIVE", out.Table.TableStatus)
	want := s.schemaOf(name)
	r.expect(slices.Equal(keys(out.Table.KeySchema), keys(want.KeySchema)), name, "keys", "are %v, not %v", keys(out.Table.KeySchema), keys(want.KeySchema))
	s.checkIndexes(r, out.Table)
	s.checkTTL(ctx, r, name)
	s.checkRecovery(ctx, r, name)
}

// schemaOf returns the schema that the store needs for a table.
func (s *Stack) schemaOf(name string) *dynamodb.CreateTableInput {
	schemas := dynamostore.Schema(dynamostore.Tables{Groups: s.Outputs.GroupsTable, Tokens: s.Outputs.TokensTable})
	return schemas[slices.IndexFunc(schemas, func(in *dynamodb.CreateTableInput) bool { return aws.ToString(in.TableName) == name })]
}

func (s *Stack) checkIndexes(r *report, table *types.TableDescription) {
	name := aws.ToString(table.TableName)
	for _, want := range s.schemaOf(name).GlobalSecondaryIndexes {
		index := aws.ToString(want.IndexName)
		i := slices.IndexFunc(table.GlobalSecondaryIndexes, func(d types.GlobalSecondaryIndexDescription) bool { return aws.ToString(d.IndexName) == index })
		if i < 0 {
			r.expect(false, name, "index "+index, "is missing: a sweep would not find what is held")
			continue
		}
		got := table.GlobalSecondaryIndexes[i]
		r.expect(slices.Equal(keys(got.KeySchema), keys(want.KeySchema)), name, "index "+index, "has the keys %v, not %v", keys(got.KeySchema), keys(want.KeySchema))
	}
}

func keys(schema []types.KeySchemaElement) []string {
	out := make([]string, len(schema))
	for i, k := range schema {
		out[i] = string(k.KeyType) + " " + aws.ToString(k.AttributeName)
	}
	slices.Sort(out)
	return out
}

func (s *Stack) checkTTL(ctx context.Context, r *report, name string) {
	out, err := s.dynamodb.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		r.unknown(name, "time to live", explain(err))
		return
	}
	d := out.TimeToLiveDescription
	on := d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling)
	r.expect(on && aws.ToString(d.AttributeName) == dynamostore.TTLAttribute, name, "time to live",
		"is not on for attribute %s: expired records would take space for ever", dynamostore.TTLAttribute)
}

func (s *Stack) checkRecovery(ctx context.Context, r *report, name string) {
	out, err := s.dynamodb.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &name})
	if err != nil {
		r.unknown(name, "point-in-time recovery", explain(err))
		return
	}
	d := out.ContinuousBackupsDescription
	on := d != nil && d.PointInTimeRecoveryDescription != nil && d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled
	r.expect(on, name, "point-in-time recovery", "is off: what is deleted by mistake could not be brought back")
}

func (s *Stack) checkQueues(ctx context.Context, r *report, timeouts map[string]time.Duration) {
	targets := map[string]string{
		s.Outputs.IngressQueueURL: s.Outputs.DeadQueueURL, s.Outputs.IngressFIFOQueueURL: s.Outputs.DeadFIFOQueueURL,
		s.Outputs.PublishQueueURL: s.Outputs.DeadPublishQueueURL, s.Outputs.PublishFIFOQueueURL: s.Outputs.DeadPublishFIFOQueueURL,
	}
	for _, p := range slices.Concat(s.Outputs.work(), s.Outputs.dead()) {
		name := path.Base(p.url)
		a, err := s.queueAttributes(ctx, p.url)
		if err != nil {
			r.unknown(name, "queue", err)
			continue
		}
		r.expect(true, name, "queue", "")
		if dead, works := targets[p.url]; works {
			checkWork(r, name, a, path.Base(dead), timeouts[name])
			continue
		}
		if a["MessageRetentionPeriod"] == "" {
			r.unknown(name, "retention", errors.New("SQS did not return how long the queue keeps messages"))
			continue
		}
		retention := seconds(a["MessageRetentionPeriod"])
		r.expect(retention >= deadRetention, name, "retention", "is %s, less than %s: dead letters would be gone before anybody looks", retention, deadRetention)
	}
}

// deadRetention is the longest that SQS keeps a message.
const deadRetention = 14 * 24 * time.Hour

func checkWork(r *report, name string, a map[string]string, dead string, timeout time.Duration) {
	var policy struct {
		Target string `json:"deadLetterTargetArn"`
	}
	_ = json.Unmarshal([]byte(a["RedrivePolicy"]), &policy) // if there is none, there is no target
	r.expect(lastOf(policy.Target) == dead, name, "redrive", "goes to %q, not to %s: messages that fail would be lost", lastOf(policy.Target), dead)
	if timeout == 0 {
		r.unknown(name, "visibility", errors.New("the timeout of the function behind the queue is unknown"))
		return
	}
	visibility := seconds(a["VisibilityTimeout"])
	r.expect(visibility >= 6*timeout, name, "visibility", "is %s, less than six times the functions' timeout of %s: messages would be delivered while they are worked on",
		visibility, timeout)
}

func seconds(text string) time.Duration {
	n, _ := strconv.Atoi(text) // if it is missing, it counts as none
	return time.Duration(n) * time.Second
}

func (s *Stack) checkFunctions(ctx context.Context, r *report, functions []function) {
	r.expect(len(functions) > 0, s.Name, "functions", "no function of the stack has the environment of the engine")
	var first []byte
	var of string
	for _, f := range functions {
		s.checkEnvironment(r, f)
		text, err := s.configurationOf(ctx, f)
		if err != nil {
			r.unknown(f.name, "configuration", err)
			continue
		}
		if f.name == s.Outputs.ProcessFunction || s.Outputs.ProcessFunction == "" && first == nil {
			s.checkSources(r, f, text)
		}
		if first == nil {
			first, of = text, f.name
		}
		r.expect(bytes.Equal(text, first), f.name, "configuration", "is not that of function %s: deploy again", of)
	}
}

// checkEnvironment adds a finding for each variable that is wrong, or one if all are right.
func (s *Stack) checkEnvironment(r *report, f function) {
	before := len(*r)
	for _, want := range s.environment() {
		if got := f.environment[want.name]; got != *want.to {
			r.expect(false, f.name, want.name, "is %q, not %q", got, *want.to)
		}
	}
	if f.environment[environment.TrustedSenders] == "" {
		r.expect(false, f.name, environment.TrustedSenders, "is empty: the function would not start")
	}
	if len(*r) == before {
		r.expect(true, f.name, "environment", "")
	}
}

// environment returns the variables of the functions that must have the same values as the outputs.
func (s *Stack) environment() []output {
	o := &s.Outputs
	return []output{
		{environment.GroupsTable, &o.GroupsTable},
		{environment.TokensTable, &o.TokensTable},
		{environment.Bucket, &o.Bucket},
		{environment.IngressQueue, &o.IngressQueueURL},
		{environment.IngressFIFOQueue, &o.IngressFIFOQueueURL},
		{environment.PublishQueue, &o.PublishQueueURL},
		{environment.PublishFIFOQueue, &o.PublishFIFOQueueURL},
		{environment.DeadQueue, &o.DeadQueueURL},
		{environment.DeadPublishQueue, &o.DeadPublishQueueURL},
	}
}

// checkSources adds a finding on the queue of each source of a function's configuration.
func (s *Stack) checkSources(r *report, f function, text []byte) {
	c, err := onceconfig.Parse("configuration of function "+f.name, text)
	if err != nil {
		r.expect(false, f.name, "sources", "the configuration is not one of this version of once: %v", err)
		return
	}
	urls, err := environment.ReadSources(f.environment[environment.SourceQueues], s.Outputs.IngressQueueURL)
	if err != nil {
		r.expect(false, f.name, environment.SourceQueues, "is wrong: %v", err)
		return
	}
	missing := environment.Queues{Sources: urls}.WithoutQueue(c)
	for _, name := range c.IngressNames() {
		r.expect(!slices.Contains(missing, name), "ingress."+name, "queue",
			"the stack has no queue for it, so nothing can be sent to it: deploy a template that is made for the configuration")
	}
}
