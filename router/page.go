package router

import "html/template"

// page shows a report to people. html/template escapes what comes from members; there is no script, and nothing is fetched.
var page = template.Must(template.New("debug").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{with .Node}}{{.ID}}{{else}}gateway{{end}}{{with .Group}} · {{.Name}}{{end}}</title>
<style>
:root { color-scheme: light dark; --line: color-mix(in srgb, CanvasText 18%, Canvas); --soft: color-mix(in srgb, CanvasText 65%, Canvas); }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 70rem; padding: 0 1rem; background: Canvas; color: CanvasText; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
p { margin: .3rem 0; }
small, .soft { color: var(--soft); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: .6rem 1.2rem; margin: 0; }
dt { color: var(--soft); font-size: .85rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; min-width: 30rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; white-space: nowrap; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: normal; font-size: .85rem; }
th.n, td.n { text-align: right; }
td.s { min-width: 14rem; white-space: normal; }
.bad { font-weight: bold; }
nav a { margin-right: 1rem; }
</style>
</head>
<body>
<h1>{{with .Node}}{{.ID}}{{else}}Gateway{{end}}</h1>
{{with .Group}}<p>Group <b>{{.Name}}</b>, {{.Shards}} shards, {{.Hash}} <small>id {{with .ID}}{{.}}{{else}}not known yet{{end}}</small></p>{{end}}
<p><a href="?format=json&amp;from={{.Page.From}}">as JSON</a></p>
{{with .Node}}
<h2>This node</h2>
<dl>
<div><dt>Address</dt><dd>{{.Address}}</dd></div>
{{with .Zone}}<div><dt>Zone</dt><dd>{{.}}</dd></div>{{end}}
{{with .Version}}<div><dt>Version</dt><dd>{{.}}</dd></div>{{end}}
<div><dt>Ready</dt><dd{{if ne .Ready "yes"}} class="bad"{{end}}>{{.Ready}}</dd></div>
<div><dt>Live</dt><dd{{if ne .Live "yes"}} class="bad"{{end}}>{{.Live}}</dd></div>
<div><dt>Trust left</dt><dd{{if not .Trust}} class="bad"{{end}}>{{if .Trust}}{{.Trust}}{{else}}none: admits nothing{{end}}</dd></div>
<div><dt>Planner</dt><dd>{{with .Planner}}{{.}}{{else}}nobody{{end}}{{if eq .Planner .ID}} <small>(this node)</small>{{end}}</dd></div>
<div><dt>Store revision seen</dt><dd>{{.Revision}}</dd></div>
<div><dt>Weight</dt><dd>{{.Weight}}{{if .Draining}}, <b>draining</b>{{end}}</dd></div>
<div><dt>Shards held</dt><dd>{{.Shards}}</dd></div>
</dl>
<h2>Since it started</h2>
{{with .Counters}}
<dl>
<div><dt>Waits</dt><dd>{{.Waits}}{{if .Waits}} <small>{{.MeanWait}} each</small>{{end}}</dd></div>
<div><dt>Waiting now</dt><dd>{{$.Node.Waiting}}</dd></div>
<div><dt>Refused as busy</dt><dd{{if .Busy}} class="bad"{{end}}>{{.Busy}}</dd></div>
<div><dt>Renewals</dt><dd>{{.Renewals}}</dd></div>
<div><dt>Renewals that failed</dt><dd{{if .RenewalFailures}} class="bad"{{end}}>{{.RenewalFailures}}</dd></div>
<div><dt>Fenced, as stale</dt><dd{{if .Fenced}} class="bad"{{end}}>{{.Fenced}}</dd></div>
<div><dt>Tenures begun</dt><dd>{{.Granted}}</dd></div>
<div><dt>Handed over</dt><dd>{{.HandedOff}}</dd></div>
<div><dt>Forced</dt><dd{{if .Forced}} class="bad"{{end}}>{{.Forced}}</dd></div>
<div><dt>Lost</dt><dd{{if .Lost}} class="bad"{{end}}>{{.Lost}}</dd></div>
<div><dt>Failed</dt><dd{{if .Failed}} class="bad"{{end}}>{{.Failed}}</dd></div>
<div><dt>Held, on average</dt><dd>{{if .MeanHeld}}{{.MeanHeld}}{{else}}none ended yet{{end}}</dd></div>
</dl>
{{end}}
{{end}}
{{with .Table}}
<h2>Table</h2>
<dl>
<div><dt>Store last heard</dt><dd>{{.Age}} ago</dd></div>
<div><dt>Revision shown</dt><dd>{{.Revision}}</dd></div>
<div><dt>Shards with an owner</dt><dd>{{.Owned}}</dd></div>
<div><dt>Without</dt><dd{{if .Unowned}} class="bad"{{end}}>{{.Unowned}}</dd></div>
</dl>
{{end}}
<nav><h2>Shards {{.Page.From}} to {{.Page.Last}}</h2>
{{with .Page.Prev}}<a href="?from={{.}}">previous</a>{{end}}{{with .Page.Next}}<a href="?from={{.}}">next</a>{{end}}</nav>
{{if .Table}}
<div class="wide"><table>
<tr><th>Member</th><th>Address</th><th>Zone</th><th>Version</th><th class="n">Weight</th><th class="n">Shards</th><th>of those above</th></tr>
{{range .Members}}<tr><td>{{.ID}}{{if .Plans}} <small>plans</small>{{end}}{{if .Draining}} <b>draining</b>{{end}}</td><td>{{.Address}}</td><td>{{.Zone}}</td><td>{{.Version}}</td><td class="n">{{.Weight}}</td><td class="n">{{.Shards}}</td><td class="s">{{.OnPage}}</td></tr>
{{end}}{{with .Page.Free}}<tr><td class="bad" colspan="6">nobody</td><td class="s">{{.}}</td></tr>
{{end}}</table></div>
{{end}}
{{if .Node}}
<h2>Held here</h2>
{{if .Here}}<div class="wide"><table>
<tr><th class="n">Shard</th><th>Epoch</th><th>State</th><th class="n">for</th><th class="n">Tenure's age</th></tr>
{{range .Here}}<tr><td class="n">{{.Shard}}</td><td>{{.Epoch}}</td><td>{{.State}}</td><td class="n">{{.For}}</td><td class="n">{{.Age}}</td></tr>
{{end}}</table></div>{{else}}<p class="soft">None of those above.</p>{{end}}
{{end}}
</body>
</html>
`))
