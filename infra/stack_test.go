package infra

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	tableType    = "AWS::DynamoDB::Table"
	queueType    = "AWS::SQS::Queue"
	functionType = "AWS::Lambda::Function"
	mappingType  = "AWS::Lambda::EventSourceMapping"
	logsType     = "AWS::Logs::LogGroup"
	alarmType    = "AWS::CloudWatch::Alarm"
)

func TestTablesAreOnDemandEncryptedRecoverableAndProtected(t *testing.T) {
	x := synth(t)
	for _, id := range x.all(t, tableType, 2) {
		r := x.Resources[id]
		r.expect(t, id, map[string]any{
			"BillingMode": "PAY_PER_REQUEST", "SSESpecification.SSEEnabled": true, "PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": true,
			"TimeToLiveSpecification.AttributeName": "expires", "TimeToLiveSpecification.Enabled": true, "DeletionProtectionEnabled": true,
		})
		if r.DeletionPolicy != "Retain" {
			t.Errorf("%s is deleted with its stack: %s", id, r.DeletionPolicy)
		}
	}
}

func TestTablesHaveTheKeysOfTheStore(t *testing.T) {
	x := synth(t)
	id, groups := x.one(t, tableType, "Groups")
	groups.expect(t, id, map[string]any{"KeySchema.0.AttributeName": "pk", "KeySchema.1.AttributeName": "sk", "KeySchema.1.KeyType": "RANGE"})
	groups.expect(t, id, map[string]any{
		"GlobalSecondaryIndexes": []any{map[string]any{
			"IndexName": "waiting", "Projection": map[string]any{"ProjectionType": "KEYS_ONLY"},
			"KeySchema": []any{map[string]any{"AttributeName": "held", "KeyType": "HASH"}, map[string]any{"AttributeName": "pk", "KeyType": "RANGE"}},
		}},
	})
	id, tokens := x.one(t, tableType, "Tokens")
	tokens.expect(t, id, map[string]any{"KeySchema.0.AttributeName": "pk", "KeySchema.0.KeyType": "HASH", "KeySchema.1": nil, "GlobalSecondaryIndexes": nil})

	attributes := source(t, "../internal/dedup/dynamostore")
	for name, value := range map[string]string{"attrPK": "pk", "attrSK": "sk", "attrTTL": ttlAttribute, "attrHeld": heldAttribute, "WaitingIndex": waitingIndex} {
		if !regexp.MustCompile(name + `\s+= "` + value + `"`).MatchString(attributes) {
			t.Errorf("the store's %s is not %s", name, value)
		}
	}
}

// source gives the text of a package.
func source(t *testing.T, folder string) string {
	t.Helper()
	paths, err := filepath.Glob(folder + "/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no source in %s: %v", folder, err)
	}
	var out strings.Builder
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
	}
	return out.String()
}

func TestRestoredTablesTakeThePlaceOfTheStacksOwn(t *testing.T) {
	x := synth(t, "groupsTable=old-groups", "tokensTable=old-tokens")
	x.all(t, tableType, 0)
	for _, id := range x.all(t, functionType, 3) {
		x.Resources[id].expect(t, id, map[string]any{
			"Environment.Variables.ONCE_GROUPS_TABLE": "old-groups", "Environment.Variables.ONCE_TOKENS_TABLE": "old-tokens",
		})
	}
	if got := x.Outputs["GroupsTable"].Value; got != "old-groups" {
		t.Errorf("output %v", got)
	}
	if got := wildcards(x); got != nil {
		t.Errorf("wildcards %v", got)
	}
}

func TestAPausedSystemTakesMessagesInAndProcessesNone(t *testing.T) {
	x := synth(t, "paused=true")
	for _, id := range x.all(t, mappingType, 4) {
		x.Resources[id].expect(t, id, map[string]any{"Enabled": false})
	}
	for _, id := range x.all(t, "AWS::Events::Rule", 2) {
		x.Resources[id].expect(t, id, map[string]any{"State": "DISABLED"})
	}
}

func TestDeletionProtectionIsASetting(t *testing.T) {
	x := synth(t, "deletionProtection=false")
	for _, id := range append(x.all(t, tableType, 2), x.all(t, "AWS::S3::Bucket", 1)...) {
		if r := x.Resources[id]; r.DeletionPolicy != "Delete" || at(r.Properties, "DeletionProtectionEnabled") == true {
			t.Errorf("%s stays: %s", id, r.DeletionPolicy)
		}
	}
}

// queues are the working queues and their dead-letter queues, by parts of their ids: name, first-in-first-out, receives.
var queues = []struct {
	id, dead string
	fifo     bool
	receives int
}{
	{"QueuesIngress", "QueuesIngressDead", false, 100},
	{"QueuesIngressFifo", "QueuesIngressFifoDead", true, 100},
	{"QueuesPublish", "QueuesPublishDead", false, 1000},
	{"QueuesPublishFifo", "QueuesPublishFifoDead", true, 1000},
}

// hash is what the CDK puts behind an id.
func (x *template) queue(t *testing.T, name string) (string, resource) {
	t.Helper()
	for id, r := range x.Resources {
		if r.Type == queueType && regexp.MustCompile(name+"[0-9A-F]{8}$").MatchString(id) {
			return id, r
		}
	}
	t.Fatalf("no queue %s", name)
	return "", resource{}
}

func TestQueuesHaveDeadLetterQueuesOfTheirKindThatKeepFourteenDays(t *testing.T) {
	x := synth(t)
	x.all(t, queueType, 2*len(queues))
	for _, q := range queues {
		id, work := x.queue(t, q.id)
		deadID, dead := x.queue(t, q.dead)
		work.expect(t, id, map[string]any{
			"RedrivePolicy.deadLetterTargetArn": arnOf(deadID), "RedrivePolicy.maxReceiveCount": q.receives, "MessageRetentionPeriod": 14 * 24 * 60 * 60,
			"SqsManagedSseEnabled": true, "MaximumMessageSize": 1 << 20,
		})
		dead.expect(t, deadID, map[string]any{"MessageRetentionPeriod": 14 * 24 * 60 * 60, "SqsManagedSseEnabled": true, "RedrivePolicy": nil, "MaximumMessageSize": 1 << 20})
		for id, r := range map[string]resource{id: work, deadID: dead} {
			if got := at(r.Properties, "FifoQueue") == true; got != q.fifo {
				t.Errorf("%s: first-in-first-out is %v", id, got)
			}
			if at(r.Properties, "ContentBasedDeduplication") != nil {
				t.Errorf("%s drops a second trigger of the same group", id)
			}
		}
	}
}

func TestAQueueHidesAMessageForSixTimesTheTimeoutOfItsFunction(t *testing.T) {
	for _, context := range [][]string{nil, {"timeout=120"}} {
		x := synth(t, context...)
		sources := map[string]string{"QueuesIngress": "Process", "QueuesIngressFifo": "Process", "QueuesPublish": "Publish", "QueuesPublishFifo": "Publish"}
		for _, q := range queues {
			id, work := x.queue(t, q.id)
			_, f := x.one(t, functionType, sources[q.id])
			visibility, timeout := at(work.Properties, "VisibilityTimeout").(float64), at(f.Properties, "Timeout").(float64)
			if visibility < 6*timeout {
				t.Errorf("%s hides for %v s, its function takes %v s", id, visibility, timeout)
			}
		}
	}
}

func TestEveryQueueFeedsItsFunctionWithPartialBatchResponses(t *testing.T) {
	x := synth(t)
	x.all(t, mappingType, len(queues))
	for _, q := range queues {
		queueID, _ := x.queue(t, q.id)
		functionID, _ := x.one(t, functionType, map[bool]string{true: "Process", false: "Publish"}[strings.Contains(q.id, "Ingress")])
		found := false
		for _, id := range x.all(t, mappingType, len(queues)) {
			r := x.Resources[id]
			if asJSON(at(r.Properties, "EventSourceArn")) != asJSON(arnOf(queueID)) {
				continue
			}
			found = true
			r.expect(t, id, map[string]any{
				"FunctionName": ref(functionID), "FunctionResponseTypes": []string{"ReportBatchItemFailures"}, "ScalingConfig.MaximumConcurrency": 50, "BatchSize": 10,
			})
		}
		if !found {
			t.Errorf("%s feeds nothing", q.id)
		}
	}
}

func TestMaximumConcurrencyIsASetting(t *testing.T) {
	x := synth(t, "maxConcurrency=7", "reservedConcurrency=9")
	for _, id := range x.all(t, mappingType, 4) {
		x.Resources[id].expect(t, id, map[string]any{"ScalingConfig.MaximumConcurrency": 7})
	}
	for _, id := range x.all(t, functionType, 3) {
		x.Resources[id].expect(t, id, map[string]any{"ReservedConcurrentExecutions": 9})
	}
}

func TestFunctionsRunGoOnArmWithoutReservedConcurrency(t *testing.T) {
	x := synth(t)
	for _, id := range x.all(t, functionType, 3) {
		x.Resources[id].expect(t, id, map[string]any{
			"Runtime": "provided.al2023", "Architectures": []string{"arm64"}, "ReservedConcurrentExecutions": nil, "LoggingConfig.LogFormat": "JSON", "RecursiveLoop": "Allow",
		})
	}
	id, ingest := x.one(t, functionType, "Ingest")
	ingest.expect(t, id, map[string]any{"Timeout": 29})
	x = synth(t, "architecture=amd64")
	for _, id := range x.all(t, functionType, 3) {
		x.Resources[id].expect(t, id, map[string]any{"Architectures": []string{"x86_64"}})
	}
}

func TestFunctionsHaveEveryVariableThatTheyRead(t *testing.T) {
	x := synth(t)
	var want []string
	for _, m := range regexp.MustCompile(`= "(ONCE_[A-Z_]+)"`).FindAllStringSubmatch(source(t, "../internal/lambda")+source(t, "../internal/telemetry"), -1) {
		want = append(want, m[1])
	}
	if len(want) < 10 {
		t.Fatalf("found only %v", want)
	}
	for _, id := range x.all(t, functionType, 3) {
		variables, _ := at(x.Resources[id].Properties, "Environment.Variables").(map[string]any)
		for _, name := range want {
			if variables[name] == nil {
				t.Errorf("%s has no %s", id, name)
			}
		}
		if variables["SHOP_SECRET"] != "whsec_MTIz" {
			t.Errorf("%s does not have the variable of the setting environment", id)
		}
	}
}

func TestFunctionsTrustOneAnotherAndNobodyElse(t *testing.T) {
	x := synth(t)
	id, f := x.one(t, functionType, "Process")
	var roles []any
	for _, name := range []string{"IngestRole", "ProcessRole", "PublishRole"} {
		role, _ := x.one(t, "AWS::IAM::Role", name)
		roles = append(roles, map[string]any{"Fn::GetAtt": []any{role, "RoleId"}})
	}
	f.expect(t, id, map[string]any{"Environment.Variables.ONCE_TRUSTED_SENDERS": map[string]any{"Fn::Join": []any{",", roles}}})
}

func TestTheBucketIsPrivateEncryptedAndForgetsOnlyWhatIsStaged(t *testing.T) {
	x := synth(t)
	id, b := x.one(t, "AWS::S3::Bucket", "")
	b.expect(t, id, map[string]any{
		"BucketEncryption.ServerSideEncryptionConfiguration.0.ServerSideEncryptionByDefault.SSEAlgorithm": "AES256",
		"PublicAccessBlockConfiguration": map[string]any{"BlockPublicAcls": true, "BlockPublicPolicy": true, "IgnorePublicAcls": true, "RestrictPublicBuckets": true},
		"LifecycleConfiguration.Rules": []any{
			map[string]any{"ExpirationInDays": 30, "Id": "strays", "Prefix": ".staged/", "Status": "Enabled"},
			map[string]any{"AbortIncompleteMultipartUpload": map[string]any{"DaysAfterInitiation": 1}, "Id": "uploads", "Status": "Enabled"},
		},
	})
	if !strings.Contains(source(t, "../internal/blobs3"), `Prefix = "`+stagedPrefix+`"`) {
		t.Errorf("blobs are not staged under %s", stagedPrefix)
	}
	if b.DeletionPolicy != "Retain" {
		t.Errorf("the bucket is deleted with its stack: %s", b.DeletionPolicy)
	}
}

func TestEveryFunctionAndTheAPILogWithRetention(t *testing.T) {
	for context, days := range map[string]int{"logRetentionDays=30": 30, "logRetentionDays=365": 365} {
		x := synth(t, context)
		for _, id := range x.all(t, logsType, 4) {
			x.Resources[id].expect(t, id, map[string]any{"RetentionInDays": days})
		}
		for _, id := range x.all(t, functionType, 3) {
			if at(x.Resources[id].Properties, "LoggingConfig.LogGroup.Ref") == nil {
				t.Errorf("%s logs where nothing is ever deleted", id)
			}
		}
	}
}

func TestSweepsAreScheduledWhereTheHandlersAre(t *testing.T) {
	for _, context := range [][]string{nil, {"processFunction=FOLDER/own"}} {
		x := synth(t, context...)
		target, _ := x.one(t, functionType, "Process")
		rules := x.all(t, "AWS::Events::Rule", 2)
		for i, want := range []map[string]any{
			{"ScheduleExpression": "rate(1 minute)", "Targets.0.Input": `{"once":"sweep"}`}, {"ScheduleExpression": "rate(1 hour)", "Targets.0.Input": `{"once":"sweep-all"}`},
		} {
			rule := x.Resources[rules[i]]
			rule.expect(t, rules[i], want)
			rule.expect(t, rules[i], map[string]any{"State": "ENABLED", "Targets.0.Arn": arnOf(target), "Targets.1": nil})
		}
	}
	tasks := source(t, "../internal/lambda")
	for _, task := range []string{`TaskSweep    = "sweep"`, `TaskSweepAll = "sweep-all"`} {
		if !strings.Contains(tasks, task) {
			t.Errorf("the functions have no %s", task)
		}
	}
}

func TestEverythingThatCanBeTaggedIsTagged(t *testing.T) {
	x := synth(t, "tags=team=orders,cost=42")
	for _, kind := range []string{tableType, queueType, functionType, logsType, "AWS::S3::Bucket", "AWS::IAM::Role"} {
		for id, r := range x.Resources {
			if r.Type != kind {
				continue
			}
			got := map[string]string{}
			tags, _ := r.Properties["Tags"].([]any)
			for _, tag := range tags {
				got[at(tag, "Key").(string)] = at(tag, "Value").(string)
			}
			if want := map[string]string{"once:stack": "Once", "team": "orders", "cost": "42"}; !cmp.Equal(got, want) {
				t.Errorf("%s has tags %v, want %v", id, got, want)
			}
		}
	}
}

func TestOutputsNameWhatTheCommandLineLooksFor(t *testing.T) {
	want := []string{
		"ApiUrl", "Bucket", "DeadFifoQueueUrl", "DeadPublishFifoQueueUrl", "DeadPublishQueueUrl", "DeadQueueUrl", "GroupsTable", "IngressFifoQueueUrl", "IngressQueueUrl",
		"ProcessFunction", "PublishFifoQueueUrl", "PublishFunction", "PublishQueueUrl", "TokensTable",
	}
	x := synth(t)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(x.Outputs))); diff != "" {
		t.Errorf("outputs (-want +got)\n%s", diff)
	}
	queueID, _ := x.queue(t, "QueuesPublishFifoDead")
	if got := x.Outputs["DeadPublishFifoQueueUrl"].Value; asJSON(got) != asJSON(ref(queueID)) {
		t.Errorf("DeadPublishFifoQueueUrl is %v", got)
	}
	for _, name := range []string{"Process", "Publish"} {
		functionID, _ := x.one(t, functionType, name)
		if got := x.Outputs[name+"Function"].Value; asJSON(got) != asJSON(ref(functionID)) {
			t.Errorf("%sFunction is %v", name, got)
		}
	}
}

func TestAFunctionOfOnesOwnIsOneSetting(t *testing.T) {
	assets := func(x *template) map[string]any {
		out := map[string]any{}
		for _, name := range []string{"Ingest", "Process", "Publish"} {
			_, f := x.one(t, functionType, name)
			out[name] = at(f.Properties, "Code.S3Key")
		}
		return out
	}
	before, after := assets(synth(t)), assets(synth(t, "processFunction=FOLDER/own"))
	if before["Process"] == after["Process"] {
		t.Error("the process function is the built-in one")
	}
	if before["Ingest"] != after["Ingest"] || before["Publish"] != after["Publish"] {
		t.Error("other functions have changed too")
	}
}

func TestAnEmulatorGetsOnlyWhatItTakes(t *testing.T) {
	x := synth(t, "emulator=true", "api=rest")
	x.all(t, "AWS::CloudWatch::Dashboard", 0)
	x.all(t, "AWS::ApiGateway::Account", 0)
	for id, r := range x.Resources {
		if strings.HasPrefix(r.Type, "Custom::") || r.Type == "AWS::CloudWatch::CompositeAlarm" || at(r.Properties, "Metrics") != nil && r.Type == alarmType {
			t.Errorf("%s is a %s", id, r.Type)
		}
	}
	_, f := x.one(t, functionType, "Process")
	if got := asJSON(at(f.Properties, "Environment.Variables.ONCE_TRUSTED_SENDERS")); !strings.Contains(got, "AWS::AccountId") {
		t.Errorf("the sender that emulators name is not trusted: %s", got)
	}
}

func TestABootstrapOfAnotherArchitectureIsAnErrorThatSaysSo(t *testing.T) {
	header := func(machine elf.Machine) *bytes.Reader {
		var b bytes.Buffer
		h := elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}, Type: uint16(elf.ET_EXEC),
			Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
		}
		if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(b.Bytes())
	}
	for built, fits := range map[Architecture]elf.Machine{ARM64: elf.EM_AARCH64, AMD64: elf.EM_X86_64} {
		for _, machine := range []elf.Machine{elf.EM_AARCH64, elf.EM_X86_64} {
			if err := runsOn(header(machine), built); (err == nil) != (machine == fits) {
				t.Errorf("%s on %s: got %v", machine, built, err)
			}
		}
		if err := runsOn(strings.NewReader("#!/bin/sh\n"), built); err != nil {
			t.Errorf("a script on %s: got %v", built, err)
		}
	}
}

func TestABootstrapThatIsNotBuiltIsAnErrorThatSaysSo(t *testing.T) {
	_, err := build(t, "publishFunction=FOLDER/nowhere")
	if err == nil || !strings.Contains(err.Error(), "make lambdas") || !strings.Contains(err.Error(), "Publish") {
		t.Errorf("got %v", err)
	}
}
