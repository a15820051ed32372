package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// waitingIndex finds the groups that hold messages, by heldAttribute. Without it a sweep would read
// the whole table to act on a gap.
const (
	waitingIndex  = "waiting"
	heldAttribute = "held"
)

// ttlAttribute is the time after which an item may be deleted. It only frees storage; conditions
// decide expiry.
const ttlAttribute = "expires"

// TablesProps configure tables.
type TablesProps struct {
	// Unprotected allows the tables to be deleted, and deletes them with the stack. Defaults to
	// false.
	Unprotected bool
	// Key encrypts the tables. Defaults to a key that AWS manages.
	Key awskms.IKey
}

// Tables are the primary storage: groups and tokens, on demand, encrypted, with recovery to any
// second of the last 35 days.
type Tables struct {
	Groups, Tokens awsdynamodb.ITable
}

// NewTables returns new tables. If props is nil, the defaults apply.
func NewTables(scope constructs.Construct, id string, props *TablesProps) *Tables {
	if props == nil {
		props = &TablesProps{}
	}
	scope = constructs.NewConstruct(scope, jsii.String(id))
	groups := newTable(scope, "Groups", key("sk"), *props)
	groups.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexProps{
		IndexName: jsii.String(waitingIndex), PartitionKey: key(heldAttribute), SortKey: key("pk"), ProjectionType: awsdynamodb.ProjectionType_KEYS_ONLY,
	})
	return &Tables{Groups: groups, Tokens: newTable(scope, "Tokens", nil, *props)}
}

// ExistingTables returns existing tables, such as restored ones, by name. The stack neither changes
// nor deletes them.
func ExistingTables(scope constructs.Construct, groups, tokens string) *Tables {
	return &Tables{
		Groups: awsdynamodb.Table_FromTableName(scope, jsii.String("ExistingGroups"), jsii.String(groups)),
		Tokens: awsdynamodb.Table_FromTableName(scope, jsii.String("ExistingTokens"), jsii.String(tokens)),
	}
}

func newTable(scope constructs.Construct, id string, sortKey *awsdynamodb.Attribute, props TablesProps) awsdynamodb.Table {
	encryption := awsdynamodb.TableEncryption_AWS_MANAGED
	if props.Key != nil {
		encryption = awsdynamodb.TableEncryption_CUSTOMER_MANAGED
	}
	return awsdynamodb.NewTable(scope, jsii.String(id), &awsdynamodb.TableProps{
		PartitionKey: key("pk"), SortKey: sortKey, BillingMode: awsdynamodb.BillingMode_PAY_PER_REQUEST, TimeToLiveAttribute: jsii.String(ttlAttribute),
		Encryption: encryption, EncryptionKey: props.Key,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		DeletionProtection:               jsii.Bool(!props.Unprotected), RemovalPolicy: removal(props.Unprotected),
	})
}

func key(name string) *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: jsii.String(name), Type: awsdynamodb.AttributeType_STRING}
}

func removal(unprotected bool) awscdk.RemovalPolicy {
	if unprotected {
		return awscdk.RemovalPolicy_DESTROY
	}
	return awscdk.RemovalPolicy_RETAIN
}

// GrantUse allows the engine to use both tables. A transaction needs the permissions of its parts.
func (t *Tables) GrantUse(grantee awsiam.IGrantable) {
	for _, table := range []awsdynamodb.ITable{t.Groups, t.Tokens} {
		allow(grantee, table.TableArn(), "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem")
	}
	allow(grantee, t.Groups.TableArn(), "dynamodb:Query") // reads held messages and logs
}

// GrantSweep allows a sweep to find groups; it needs GrantUse too. Processing a message never reads
// an index or a whole table. Tokens are never scanned: the table's time-to-live deletes expired
// ones.
func (t *Tables) GrantSweep(grantee awsiam.IGrantable) {
	allow(grantee, awscdk.Fn_Join(jsii.String("/index/"), &[]*string{t.Groups.TableArn(), jsii.String(waitingIndex)}), "dynamodb:Query")
	allow(grantee, t.Groups.TableArn(), "dynamodb:Scan")
}

// allow grants actions on one resource. The CDK's own grants for tables with an index allow every
// index, by a wildcard.
func allow(grantee awsiam.IGrantable, resource *string, actions ...string) {
	awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{Grantee: grantee, Actions: jsii.Strings(actions...), ResourceArns: &[]*string{resource}})
}
