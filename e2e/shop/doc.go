// Package shop checks an app that is made outside of this repository: two pipelines in one stack,
// deployed to an emulator, and used as an operator uses them, by the command line.
//
// localstack/shop.sh deploys the app and runs the checks, with these variables:
//
//	ONCE_SHOP_OUTPUTS      the file of the outputs, written by cdk deploy
//	ONCE_SHOP_UNSUPPORTED  a list of e2e/drift: what the emulator drops from templates
//	AWS_ENDPOINT_URL …     the emulator
//
// The app has the stack Shop with the pipelines Orders and Billing of infra/testdata/shop: their
// configuration, an HTTP API or a REST API, open to every caller, and the default event bus.
package shop
