// Package program compiles recipes to programs: bodies as graphs of nodes, the calls of steps with their policies,
// limits and templates, and what a run needs of its runtime. A program is immutable and shared by runs.
//
//	recipe.Recipe                          agentloop.Loop
//	      │ Compile, CompileStored               │ CompileLoop
//	      ▼                                      ▼
//	   names of a body ──▶ expressions, edges ──▶ plan order ──▶ nodes
//	                                                               │
//	   Program: Graph for the machine, Calls for the engine,  ◀────┘
//	            Uses for the runtime, Steps for people
//
// A recipe that a run began with is compiled by the [Rules] of that time: what is an error by now
// may not have been one.
//
// Where to look:
//
//	compile, body, order, step       the way of a recipe, of a body, and of a step
//	control, choice, finally         the kinds of steps that have bodies
//	pause, channel, retrieve, files  what steps wait for, send and read
//	call, retry, rollback, limits    what the engine has to know of a call
//	agent, agentnames, recipetool    agents, and recipes that are their tools
//	goagent, messages                agents from Go, and conversations
//	inputs, outputs                  the values that go in, and the shapes of those that come out
//	plan, tools, skips, noshell      what people are shown and warned of
//	cache, rules                     programs of runs that have begun
package program
