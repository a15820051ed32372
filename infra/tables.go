package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
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
	return &Tables{
		Groups: newTable(scope, "Groups", key("sk"), *props),
		Tokens: newTable(scope, "Tokens", nil, *props),
	}
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
	actions := jsii.Strings("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem")
	t.Groups.Grant(grantee, append(*actions, jsii.String("dynamodb:Query"))...) // Query finds held messages
	t.Tokens.Grant(grantee, *actions...)
}

// GrantSweep lets a sweep find groups that nobody works on and tokens that have expired; it needs GrantUse too. No message path reads a whole table.
func (t *Tables) GrantSweep(grantee awsiam.IGrantable) {
	t.Groups.Grant(grantee, jsii.String("dynamodb:Scan"))
	t.Tokens.Grant(grantee, jsii.String("dynamodb:Scan"))
}
