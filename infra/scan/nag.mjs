// Prints the findings of cdk-nag's pack AwsSolutions in a template, a line each: rule and resource.
//
//   node nag.mjs TEMPLATE FOLDER      FOLDER gets the report
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { App, DefaultStackSynthesizer, Stack, Validations } from 'aws-cdk-lib';
import { CfnInclude } from 'aws-cdk-lib/cloudformation-include';
import { AwsSolutionsChecks } from 'cdk-nag';

const [template, folder] = process.argv.slice(2);
const app = new App({ analyticsReporting: false, outdir: folder });
// The template has the rule on bootstrapping already.
const stack = new Stack(app, 'Once', { synthesizer: new DefaultStackSynthesizer({ generateBootstrapVersionRule: false }) });
new CfnInclude(stack, 'Template', { templateFile: template });
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
const report = join(folder, 'validation-report.json');
try {
  app.synth();
} catch (err) {
  if (!existsSync(report)) throw err; // with a report, it only says that there are findings
}
const plugins = JSON.parse(readFileSync(report, 'utf8')).pluginReports;
if (!plugins.some((p) => p.pluginName === 'AwsSolutions')) throw new Error('the rules have not run');
const withoutHash = (id) => id.replace(/[0-9A-F]{8}/, '');
for (const { violations } of plugins) {
  for (const { ruleName, violatingConstructs } of violations) {
    for (const { constructPath } of violatingConstructs) {
      console.log(withoutHash(ruleName), withoutHash(constructPath.split('/').at(-1)));
    }
  }
}
