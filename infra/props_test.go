package infra

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"
)

const testKey = "arn:aws:kms:eu-central-1:123456789012:key/0a1b"

func TestOneKeyEncryptsEverythingThatIsStored(t *testing.T) {
	x := synth(t, "encryptionKey="+testKey)
	for kind, want := range map[string]map[string]any{
		tableType:         {"SSESpecification.KMSMasterKeyId": testKey, "SSESpecification.SSEType": "KMS"},
		queueType:         {"KmsMasterKeyId": testKey, "SqsManagedSseEnabled": nil},
		logsType:          {"KmsKeyId": testKey},
		functionType:      {"KmsKeyArn": testKey},
		"AWS::S3::Bucket": {"BucketEncryption.ServerSideEncryptionConfiguration.0.ServerSideEncryptionByDefault.KMSMasterKeyID": testKey},
	} {
		found := 0
		for id, r := range x.Resources {
			if r.Type == kind {
				r.expect(t, id, want)
				found++
			}
		}
		if found == 0 {
			t.Errorf("no %s", kind)
		}
	}
	users := map[string][]string{}
	for _, s := range statements(x) {
		if slices.Contains(s.resources, testKey) {
			role := s.where[len("Pipeline"):strings.Index(s.where, "Role")]
			users[role] = append(users[role], s.actions...)
		}
	}
	for _, actions := range users {
		slices.Sort(actions)
	}
	if want := map[string][]string{"Ingest": keyUse, "Process": keyUse, "Publish": keyUse}; !cmp.Equal(want, users) {
		t.Errorf("users of the key %v", users)
	}
	if got := wildcards(x); got != nil {
		t.Errorf("wildcards %v", got)
	}
}

func TestAKeyOfTheSameAppAdmitsTheServicesThatNeedIt(t *testing.T) {
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	queues := awskms.NewKey(stack, jsii.String("Queues"), nil)
	logs := awskms.NewKey(stack, jsii.String("Logs"), nil)
	pipelineIn(t, stack, "Orders", PipelineProps{Config: sourcesConfig, Keys: Keys{Queues: queues, Logs: logs}})
	x := templateOf(t, stack)
	_, r := x.one(t, "AWS::KMS::Key", "Queues")
	for _, principal := range []string{`"events.amazonaws.com"`, `"sns.amazonaws.com"`, `"s3.amazonaws.com"`, `:iam::123456789012:root`} {
		if !strings.Contains(asJSON(at(r.Properties, "KeyPolicy")), principal) {
			t.Errorf("%s may not use the key of the queues", principal)
		}
	}
	_, r = x.one(t, "AWS::KMS::Key", "Logs")
	if policy := asJSON(at(r.Properties, "KeyPolicy")); !strings.Contains(policy, `["logs.",{"Ref":"AWS::Region"},".amazonaws.com"]`) || !strings.Contains(policy, "kms:EncryptionContext:aws:logs:arn") {
		t.Errorf("CloudWatch may not use the key of the logs: %s", policy)
	}
	for _, id := range x.all(t, tableType, 2) {
		x.Resources[id].expect(t, id, map[string]any{"SSESpecification.KMSMasterKeyId": nil})
	}
}

func TestFunctionsRunInTheNetworkOfTheSettings(t *testing.T) {
	x := synth(t, "vpc=vpc-0a1b2c3d", "subnets=subnet-0a1b2c3d,subnet-1a2b3c4d", "securityGroups=sg-0a1b2c3d")
	for _, id := range x.all(t, functionType, 3) {
		x.Resources[id].expect(t, id, map[string]any{"VpcConfig": map[string]any{"SubnetIds": []string{"subnet-0a1b2c3d", "subnet-1a2b3c4d"}, "SecurityGroupIds": []string{"sg-0a1b2c3d"}}})
	}
	attach := 0
	for _, s := range statements(x) {
		if slices.Contains(s.actions, "ec2:CreateNetworkInterface") {
			attach++
		}
	}
	if attach != 3 {
		t.Errorf("%d roles may attach a function to the network", attach)
	}
	if got := wildcards(x); got != nil {
		t.Errorf("wildcards %v", got)
	}
	synth(t, "vpc=vpc-0a1b2c3d", "subnets=subnet-0a1b2c3d,subnet-1a2b3c4d").all(t, "AWS::EC2::SecurityGroup", 3)
}

func TestFunctionsRunInTheNetworkOfTheApp(t *testing.T) {
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	vpc := awsec2.NewVpc(stack, jsii.String("Vpc"), nil)
	pipelineIn(t, stack, "Orders", PipelineProps{Network: &Network{VPC: vpc}})
	x := templateOf(t, stack)
	for _, id := range x.all(t, functionType, 3) {
		if subnets, _ := at(x.Resources[id].Properties, "VpcConfig.SubnetIds").([]any); len(subnets) != 2 {
			t.Errorf("%s is in the subnets %v", id, subnets)
		}
	}
}

func TestEveryRoleHasThePermissionsBoundary(t *testing.T) {
	const boundary = "arn:aws:iam::123456789012:policy/boundary"
	for _, context := range [][]string{nil, apis["rest key"]} {
		x, found := synth(t, append([]string{"permissionsBoundary=" + boundary}, context...)...), 0
		for id, r := range x.Resources {
			if r.Type == "AWS::IAM::Role" {
				r.expect(t, id, map[string]any{"PermissionsBoundary": boundary})
				found++
			}
		}
		if found < 3 {
			t.Errorf("%d roles", found)
		}
	}
}

func TestBatchesOfStandardQueuesHaveTheSizeAndTheWindowOfTheSettings(t *testing.T) {
	x := synth(t, "batchSize=500", "batchWindow=20", "timeout=60")
	for _, q := range queues {
		id, r := x.queue(t, q.id)
		visibility, batch, window := 6*60+20, 500, any(20)
		if q.fifo {
			visibility, batch, window = 6*60, 10, nil
		}
		r.expect(t, id, map[string]any{"VisibilityTimeout": visibility})
		for _, mapping := range x.all(t, mappingType, 4) {
			m := x.Resources[mapping]
			if asJSON(at(m.Properties, "EventSourceArn")) == asJSON(arnOf(id)) {
				m.expect(t, mapping, map[string]any{"BatchSize": batch, "MaximumBatchingWindowInSeconds": window})
			}
		}
	}
}

func TestProvisionedPollersReplaceTheMaximumConcurrency(t *testing.T) {
	x := synth(t, "minPollers=3", "maxPollers=9")
	for _, id := range x.all(t, mappingType, 4) {
		x.Resources[id].expect(t, id, map[string]any{"ProvisionedPollerConfig": map[string]any{"MinimumPollers": 3, "MaximumPollers": 9}, "ScalingConfig": nil})
	}
}

func TestConcurrencyIsReservedForOneFunctionAlone(t *testing.T) {
	for setting, function := range map[string]string{"ingestConcurrency": "Ingest", "processConcurrency": "Process", "publishConcurrency": "Publish"} {
		x := synth(t, setting+"=200")
		for _, id := range x.all(t, functionType, 3) {
			want := any(nil)
			if strings.Contains(id, function) {
				want = 200
			}
			x.Resources[id].expect(t, id, map[string]any{"ReservedConcurrentExecutions": want})
		}
	}
}

func TestTracingAndLayersAreSettings(t *testing.T) {
	const layer = "arn:aws:lambda:eu-central-1:123456789012:layer:collector:7"
	x := synth(t, "tracing=true", "api=rest", "layers="+layer)
	for _, id := range x.all(t, functionType, 3) {
		x.Resources[id].expect(t, id, map[string]any{"TracingConfig.Mode": "Active", "Layers": []string{layer}})
	}
	id, stage := x.one(t, "AWS::ApiGateway::Stage", "")
	stage.expect(t, id, map[string]any{"TracingEnabled": true})
	if got := wildcards(x); got != nil {
		t.Errorf("wildcards %v", got)
	}
}

func TestTheAccessLogOfTheBucketGoesToTheBucketOfTheApp(t *testing.T) {
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	pipelineIn(t, stack, "Orders", PipelineProps{BucketLogs: awss3.NewBucket(stack, jsii.String("Logs"), nil)})
	x := templateOf(t, stack)
	logs, _ := x.one(t, "AWS::S3::Bucket", "Logs")
	id, bucket := x.one(t, "AWS::S3::Bucket", "OrdersBucket")
	bucket.expect(t, id, map[string]any{"LoggingConfiguration.DestinationBucketName": ref(logs)})
}

func TestPagesOfAnOriginMayCallAnHTTPAPI(t *testing.T) {
	x := synth(t, "corsOrigins=https://shop.example,https://till.example")
	id, api := x.one(t, "AWS::ApiGatewayV2::Api", "")
	api.expect(t, id, map[string]any{"CorsConfiguration.AllowOrigins": []string{"https://shop.example", "https://till.example"}, "CorsConfiguration.AllowHeaders": []string{"*", "authorization"}})
	authorization := map[string]any{}
	for _, id := range x.all(t, "AWS::ApiGatewayV2::Route", 2) {
		p := x.Resources[id].Properties
		authorization[p["RouteKey"].(string)] = p["AuthorizationType"]
	}
	if want := map[string]any{"ANY /{proxy+}": "AWS_IAM", "OPTIONS /{proxy+}": "NONE"}; !cmp.Equal(want, authorization) {
		t.Errorf("routes %v", authorization)
	}
}

func TestPropsErrorNamesWhatLambdaWouldRefuse(t *testing.T) {
	for want, props := range map[string]PipelineProps{
		"batchSize: 11 is more than 10":                       {BatchSize: 11},
		"batchSize: 10001 is not from":                        {BatchSize: 10_001, BatchWindow: time.Second},
		"batchWindow: 1.5s is not":                            {BatchWindow: 1500 * time.Millisecond},
		"batchWindow: 6m0s is not":                            {BatchWindow: 6 * time.Minute},
		"minPollers, maxPollers: Lambda has either":           {Pollers: &Pollers{2, 2}, MaxConcurrency: 2},
		"minPollers, maxPollers: 5 and 4 are":                 {Pollers: &Pollers{5, 4}},
		"minPollers, maxPollers: 0 and 2001 are":              {Pollers: &Pollers{0, 2001}},
		"processConcurrency: 20 is less than 101":             {ProcessConcurrency: 20},
		"publishConcurrency: 40 is less than 41":              {PublishConcurrency: 40, Pollers: &Pollers{2, 2}},
		"ingestConcurrency: -1":                               {IngestConcurrency: -1},
		"reservedConcurrency: 101 is less than 451: 9 queues": {Config: sourcesConfig, ReservedConcurrency: 101},
		"corsOrigins: API Gateway adds the headers":           {API: APISettings{Kind: REST, CORSOrigins: []string{"*"}}},
	} {
		orElse(&props.Config, "streams: {orders: {}}\n")
		if _, err := NewPipeline(NewApp(), "P", &props); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestTheStatedDefaultsOfKeysHold(t *testing.T) {
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	own, other := awskms.NewKey(stack, jsii.String("Own"), nil), awskms.NewKey(stack, jsii.String("Other"), nil)
	k := Keys{Default: own, Bucket: other}.withDefaults()
	got := map[string]awskms.IKey{"tables": k.Tables, "queues": k.Queues, "bucket": k.Bucket, "logs": k.Logs, "environment": k.Environment}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		want := own
		if name == "bucket" {
			want = other
		}
		if got[name] != awskms.IKey(want) {
			t.Errorf("%s has another key", name)
		}
	}
}
