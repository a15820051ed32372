package infra

import (
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
	for name, value := range map[string]string{"attrPK": "pk", "attrSK": "sk", "attrTTL": ttlAttribute, "attrHeld": heldAttribute, "waitingIndex": waitingIndex} {
		if !regexp.MustCompile(name + `\s+= "` + value + `"`).MatchString(attributes) {
			t.Errorf("the store's %s is not %s", name, value)
		}
	}
}

// source returns the text of a package.
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

func TestRestoredTablesReplaceTheTablesOfTheStack(t *testing.T) {
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

func TestAPausedSystemAcceptsMessagesAndProcessesNone(t *testing.T) {
	x := synth(t, "paused=true")
	for _, id := range x.all(t, mappingType, 4) {
		x.Resources[id].expect(t, id, map[string]any{"Enabled": false})
	}
	for _, id := range x.all(t, "AWS::Events::Rule", 2) {
		x.Resources[id].expect(t, id, map[string]any{"State": "DISABLED"})
	}
}

// kept are the types of the resources that hold messages, or what happened to them.
var kept = []string{tableType, queueType, logsType, "AWS::S3::Bucket"}

func TestWhatHoldsMessagesStaysWhenTheStackIsDeletedOrReplacesIt(t *testing.T) {
	for context, policy := range map[string]string{"deletionProtection=true": "Retain", "deletionProtection=false": "Delete"} {
		x, found := synth(t, context), 0
		for id, r := range x.Resources {
			if !slices.Contains(kept, r.Type) {
				continue
			}
			found++
			if r.DeletionPolicy != policy || r.UpdateReplacePolicy != policy {
				t.Errorf("%s: %s has the policies %s and %s, want %s", context, id, r.DeletionPolicy, r.UpdateReplacePolicy, policy)
			}
			if r.Type == tableType {
				r.expect(t, id, map[string]any{"DeletionProtectionEnabled": policy == "Retain"})
			}
		}
		if found != 2+8+4+1 {
			t.Errorf("found %d resources that hold messages", found)
		}
	}
	for id, r := range sourced(t).Resources {
		if r.Type == queueType && r.DeletionPolicy != "Retain" {
			t.Errorf("%s is deleted with the stack", id)
		}
	}
}

func TestTheBucketIsPrivateEncryptedAndExpiresOnlyStagedObjectsAndBodies(t *testing.T) {
	x := synth(t)
	id, b := x.one(t, "AWS::S3::Bucket", "")
	b.expect(t, id, map[string]any{
		"BucketEncryption.ServerSideEncryptionConfiguration.0.ServerSideEncryptionByDefault.SSEAlgorithm": "AES256",
		"PublicAccessBlockConfiguration": map[string]any{"BlockPublicAcls": true, "BlockPublicPolicy": true, "IgnorePublicAcls": true, "RestrictPublicBuckets": true},
		"LifecycleConfiguration.Rules": []any{
			map[string]any{"ExpirationInDays": 30, "Id": "strays", "Prefix": ".staged/", "Status": "Enabled"},
			map[string]any{"ExpirationInDays": 60, "Id": "bodies", "Prefix": ".bodies/", "Status": "Enabled"},
			map[string]any{"AbortIncompleteMultipartUpload": map[string]any{"DaysAfterInitiation": 1}, "Id": "uploads", "Status": "Enabled"},
		},
	})
	if !strings.Contains(source(t, "../internal/blob"), `Staged = "`+strings.TrimSuffix(stagedPrefix, "/")+`"`) {
		t.Errorf("blobs are not staged under %s", stagedPrefix)
	}
	if !strings.Contains(source(t, "../internal/blob"), `Bodies = "`+strings.TrimSuffix(bodiesPrefix, "/")+`"`) {
		t.Errorf("bodies are not kept under %s", bodiesPrefix)
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

func TestSweepsRunInTheFunctionWithTheHandlers(t *testing.T) {
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
	tasks := source(t, "../internal/system/function/tasks")
	for _, task := range []string{`Sweep    = "sweep"`, `SweepAll = "sweep-all"`} {
		if !strings.Contains(tasks, task) {
			t.Errorf("the functions have no %s", task)
		}
	}
}

func TestNeitherTheScheduleNorLambdaRetriesAFailedSweep(t *testing.T) {
	x := synth(t)
	process, _ := x.one(t, functionType, "Process")
	for _, id := range x.all(t, "AWS::Lambda::EventInvokeConfig", 1) {
		x.Resources[id].expect(t, id, map[string]any{"FunctionName": ref(process), "Qualifier": "$LATEST", "MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 300})
	}
	for _, id := range x.all(t, "AWS::Events::Rule", 2) {
		x.Resources[id].expect(t, id, map[string]any{"Targets.0.RetryPolicy.MaximumRetryAttempts": 0})
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

func TestOutputsHaveTheNamesThatTheCommandLineReads(t *testing.T) {
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

func TestAStackForAnEmulatorOmitsUnsupportedResources(t *testing.T) {
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
