package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// waitingIndex finds the groups that have messages held, by heldAttribute; without it a sweep would read the whole table to act on a gap.
const (
	waitingIndex  = "waiting"
	heldAttribute = "held"
)

// ttlAttribute is where the store puts the time at which an item may go. It only gives storage back: what counts is in conditions.
const ttlAttribute = "expires"

// TablesProps say how tables are kept.
type TablesProps struct {
	// Unprotected lets the tables be deleted, and deletes them with the stack. Defaults to false.
	Unprotected bool
}

// Tables are the primary storage: groups and tokens, on demand, encrypted, with recovery to any second of the last 35 days.
type Tables struct {
	Groups, Tokens awsdynamodb.ITable
}

// NewTables makes the tables. Nil props are the defaults.
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

// ExistingTables are tables that are there already, such as restored ones, by their names. The stack neither changes nor deletes them.
func ExistingTables(scope constructs.Construct, groups, tokens string) *Tables {
	return &Tables{
		Groups: awsdynamodb.Table_FromTableName(scope, jsii.String("ExistingGroups"), jsii.String(groups)),
		Tokens: awsdynamodb.Table_FromTableName(scope, jsii.String("ExistingTokens"), jsii.String(tokens)),
	}
}

func newTable(scope constructs.Construct, id string, sortKey *awsdynamodb.Attribute, props TablesProps) awsdynamodb.Table {
	return awsdynamodb.NewTable(scope, jsii.String(id), &awsdynamodb.TableProps{
		PartitionKey: key("pk"), SortKey: sortKey, BillingMode: awsdynamodb.BillingMode_PAY_PER_REQUEST, TimeToLiveAttribute: jsii.String(ttlAttribute),
		Encryption:                       awsdynamodb.TableEncryption_AWS_MANAGED,
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

// GrantUse lets the engine work on both tables. A transaction needs the permissions of what it does.
func (t *Tables) GrantUse(grantee awsiam.IGrantable) {
	for _, table := range []awsdynamodb.ITable{t.Groups, t.Tokens} {
		allow(grantee, table.TableArn(), "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem")
	}
	allow(grantee, t.Groups.TableArn(), "dynamodb:Query") // finds held messages
}

// GrantSweep lets a sweep find groups that nobody works on; it needs GrantUse too. No message path reads an index or a whole table, and nothing reads all tokens: what
// has expired, the time-to-live of the table deletes.
func (t *Tables) GrantSweep(grantee awsiam.IGrantable) {
	allow(grantee, awscdk.Fn_Join(jsii.String("/index/"), &[]*string{t.Groups.TableArn(), jsii.String(waitingIndex)}), "dynamodb:Query")
	allow(grantee, t.Groups.TableArn(), "dynamodb:Scan")
}

// allow grants actions on one resource. The CDK's grants for tables with an index allow every index, by a wildcard.
func allow(grantee awsiam.IGrantable, resource *string, actions ...string) {
	awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{Grantee: grantee, Actions: jsii.Strings(actions...), ResourceArns: &[]*string{resource}})
}
