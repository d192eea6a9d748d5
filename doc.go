// Package braise is the root of Braise, an engine for recipes: YAML files whose steps call models and
// tools. [Load] reads and compiles a recipe. The other packages, in the order from the text to the outcome, are:
//
//   - recipe reads a recipe file into data with positions.
//   - workflow compiles a recipe to a graph and runs it.
//   - runtime defines what a run may use: models, tools, secrets, limits. To embed Braise, implement
//     two of its interfaces: Model and Tool.
//   - trace and diagnostics define the events and the diagnostics of a run.
//   - host makes a runtime from a braise.yaml, as the command does.
//
// docs/start/go.md is a tutorial. docs/design.md describes how a run passes through the packages.
package braise
