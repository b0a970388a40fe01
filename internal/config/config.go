package config

import (
	"net/netip"
	"time"
)

// Config is the whole configuration. Load makes it; the zero value is not
// valid. Tags: key (name in the file), default, doc, and flag for the few keys
// that have a flag of their own.
type Config struct {
	Roles    []string `key:"roles" default:"gate,worker" flag:"roles" doc:"What this process does: gate answers HTTP requests, worker judges what was taken and ends holds. Every installation needs both, in one process or in several."`
	DataDir  string   `key:"data_dir" default:"./data" flag:"data-dir" doc:"Folder of everything the server keeps: the embedded ledger, development keys, and the addresses it listens on. Made if missing, readable by its owner only."`
	API      API      `key:"api" doc:"The HTTP API that buyers, shops and operators call."`
	Ops      Ops      `key:"ops" doc:"Health, readiness, metrics and profiles, for operators' tools."`
	Ledger   Ledger   `key:"ledger" doc:"The book of record."`
	Redis    Redis    `key:"redis" doc:"The fast counter in front of the ledger. It may be lost at any moment: that costs speed, never an order."`
	Gate     Gate     `key:"gate" doc:"The door: limits, lists, challenges and passes in front of every attempt. What operators change while it is at work (limits, lists, rules of sales) is in the ledger: doorbuster gate, and docs/gate.md."`
	Auth     Auth     `key:"auth" doc:"Who the caller is."`
	Engine   Engine   `key:"engine" doc:"How attempts are gathered into transactions."`
	Fast     Fast     `key:"fast" doc:"The fast path: sales that prefer it are sold through Redis, and judged by the ledger in batches."`
	Holds    Holds    `key:"holds" doc:"How reserved orders that nobody pays come to their end."`
	Log      Log      `key:"log" doc:"Log lines, on standard error."`
	Shutdown Shutdown `key:"shutdown" doc:"What happens when the server is asked to stop."`
}

// API is the HTTP API.
type API struct {
	Listen         string         `key:"listen" default:"127.0.0.1:8080" flag:"api-listen" doc:"Address of the API. Port 0 takes a free one; the address taken is written to <data_dir>/api.addr. On an address that is not loopback a key for buyers' tokens must be configured (auth.jwt)."`
	CORSOrigins    []string       `key:"cors_origins" doc:"Origins whose pages may call the API from a browser, such as https://shop.example; * is any."`
	TrustedProxies []netip.Prefix `key:"trusted_proxies" doc:"Networks of your own proxies. Only what they add to X-Forwarded-For is believed; without them the peer's address is the client's."`
	ProxyProtocol  string         `key:"proxy_protocol" default:"off" doc:"Whether your own proxies (api.trusted_proxies) begin each connection with a header of the PROXY protocol, version 1 or 2: on or off. With on they must."`
	MaxBodyBytes   int            `key:"max_body_bytes" default:"16384" doc:"Longest request body; longer ones are refused with 413. Operators may send 16 times as much."`
	MaxHeaderBytes int            `key:"max_header_bytes" default:"16384" doc:"Longest request header. Longer ones are refused with 431."`
	Timeouts       Timeouts       `key:"timeouts" doc:"Protection from slow clients."`
	Limits         Limits         `key:"limits" doc:"Places for requests, by class. Classes have separate places, so that a crowd of buyers cannot keep payments or operators out."`
	Streams        Streams        `key:"streams" doc:"Caps on open event streams; beyond them the answer is 429 with Retry-After."`
}

// Timeouts protect the API from slow clients. All are positive.
type Timeouts struct {
	ReadHeader time.Duration `key:"read_header" default:"5s" doc:"Longest time from connect, or from the last answer, to the end of a request's header."`
	Read       time.Duration `key:"read" default:"10s" doc:"Longest time to read a whole request."`
	Request    time.Duration `key:"request" default:"10s" doc:"Longest time to work on a request; then it ends with 503 unavailable. Event streams have no end."`
	Write      time.Duration `key:"write" default:"20s" doc:"Longest time from the header of a request to the end of its answer; more than request. For event streams it bounds each message."`
	Idle       time.Duration `key:"idle" default:"2m" doc:"Longest time that a connection is kept open without a request."`
}

// Limits bounds the requests of each class.
type Limits struct {
	Buy   Limit `key:"buy" default:"in_flight=256 queue=16384 wait=2s" doc:"Buys."`
	Read  Limit `key:"read" default:"in_flight=512 queue=4096 wait=2s" doc:"Sales, orders and everything else that only reads."`
	Pay   Limit `key:"pay" default:"in_flight=128 queue=4096 wait=5s" doc:"Payments, cancels and refunds."`
	Admin Limit `key:"admin" default:"in_flight=32 queue=256 wait=2s" doc:"Calls of operators."`
}

// Limit bounds the requests of one class.
type Limit struct {
	InFlight int           `key:"in_flight" doc:"Most requests that are worked on at once."`
	Queue    int           `key:"queue" doc:"Most requests that wait for a place; the next one is answered 503 busy at once."`
	Wait     time.Duration `key:"wait" doc:"Longest wait for a place, then 503 busy."`
}

// Streams caps open event streams.
type Streams struct {
	Total   int `key:"total" default:"10000" doc:"Of this process."`
	PerIP   int `key:"per_ip" default:"64" doc:"Of one client address (IPv6: one /64 network)."`
	PerUser int `key:"per_user" default:"8" doc:"Of one buyer."`
}

// Ops is the listener for operators' tools.
type Ops struct {
	Listen string `key:"listen" default:"127.0.0.1:9090" flag:"ops-listen" doc:"Address of /healthz, /readyz, /metrics and /debug/pprof. On an address that is not loopback, metrics and profiles ask for an API key with the scope ops. Port 0 takes a free one; the address taken is written to <data_dir>/ops.addr."`
}

// Ledger is the book of record.
type Ledger struct {
	// URL is never empty in a loaded configuration.
	URL string `key:"url" flag:"ledger-url" secret:"url" doc:"Where the ledger is: sqlite:PATH, one file on a local disk, used by one process at a time; or postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full, PostgreSQL 13 or newer, shared by any number of processes (not through a pooler of transactions; pool_max_conns=N bounds the connections of one process, 8 if left out). Empty is sqlite:<data_dir>/doorbuster.db."`
}

// Redis is where the fast counter lives. Without a URL every sale is sold by the
// ledger alone.
type Redis struct {
	URL         string        `key:"url" flag:"redis-url" secret:"url" doc:"Where Redis (7.0 or newer, maxmemory-policy noeviction) is: redis://[[user]:password@]host[:6379][/db], a primary behind sentinels redis://host1,host2?sentinel=NAME, or a Redis Cluster redis://host1,host2?cluster=true; rediss:// is the same over TLS. Empty: no fast path."`
	Prefix      string        `key:"prefix" default:"doorbuster" doc:"First word of every key, so that several installations can share a Redis. All instances of one installation say the same."`
	CAFile      string        `key:"ca_file" doc:"PEM file with the certificates that vouch for the servers of a rediss:// URL. Empty: those of the system."`
	CallTimeout time.Duration `key:"call_timeout" default:"1s" doc:"Longest time of one call; then its outcome is unknown, and the attempts in it end with 503 unavailable and may be repeated with their keys."`
}

// Gate is the door.
type Gate struct {
	Mode            string         `key:"mode" default:"on" doc:"Whether this instance keeps the gate: on or off. With off everybody may come in who has a token."`
	Exempt          []netip.Prefix `key:"exempt" default:"127.0.0.0/8,::1/128" doc:"Networks of the house itself: connections from there meet lists and passes only, no limits and no challenges. Not those that carry a header by which a proxy tells of its clients, such as X-Forwarded-For or Via, or that a PROXY header speaks for; a proxy there that sends none lets all its clients by."`
	SettingsFile    string         `key:"settings_file" doc:"JSON file with the gate's settings. It is read again when it changes, and stands back as soon as settings are entered by API or CLI. Empty: the built-in settings."`
	ProxyRangesFile string         `key:"proxy_ranges_file" doc:"File with networks of known proxies, one a line, whose callers are asked for a proof. It is read again when it changes."`
	Instances       int            `key:"instances" default:"1" doc:"How many instances share the limits. While Redis does not answer each admits this part of them."`
	Captcha         Captcha        `key:"captcha" doc:"A hosted captcha that may ask in the place of a proof of work (challenge.captcha of the gate's settings)."`
}

// Captcha is an account at a service that shows captchas.
type Captcha struct {
	Provider   string   `key:"provider" doc:"The service: turnstile, hcaptcha or geetest. Empty: none."`
	SiteKey    string   `key:"site_key" doc:"The public key that pages show the captcha with; for geetest the captcha id."`
	SecretFile string   `key:"secret_file" doc:"File with the secret key."`
	Hostnames  []string `key:"hostnames" doc:"Hosts of the pages that show the captcha, such as shop.example; a solution that was made elsewhere opens nothing. Not for geetest."`
}

// Auth says how callers are known.
type Auth struct {
	JWT JWT `key:"jwt" doc:"Which tokens of buyers are accepted. Exactly one of the four sources below names the key. With none of them the first start makes a development key, <data_dir>/jwt.key, which is accepted on loopback addresses only."`
}

// JWT says which tokens of buyers are accepted.
type JWT struct {
	Issuer        string `key:"issuer" default:"doorbuster" doc:"The iss claim that a token must have."`
	Audience      string `key:"audience" default:"doorbuster" doc:"The aud claim that a token must have."`
	Algorithm     string `key:"algorithm" default:"HS256" doc:"The one algorithm that the key is for: HS256, EdDSA, RS256 or ES256."`
	SecretFile    string `key:"secret_file" doc:"File with the shared secret of HS256: text of at least 32 bytes."`
	PublicKeyFile string `key:"public_key_file" doc:"PEM file with the issuer's public key or certificate."`
	JWKSFile      string `key:"jwks_file" doc:"File with the issuer's JSON Web Key Set."`
	JWKSURL       string `key:"jwks_url" secret:"url" doc:"URL of the issuer's JSON Web Key Set, https (or http on loopback). It is fetched again while the server runs."`
}

// Named reports whether a source names the key.
func (j *JWT) Named() bool {
	return j.SecretFile != "" || j.PublicKeyFile != "" || j.JWKSFile != "" || j.JWKSURL != ""
}

// Engine says how attempts are gathered.
type Engine struct {
	MaxBatch    int           `key:"max_batch" default:"256" doc:"Most attempts that are decided in one transaction."`
	MaxQueue    int           `key:"max_queue" default:"4096" doc:"Most attempts of one sale that wait for their transaction; beyond it the answer is 503 busy."`
	CallTimeout time.Duration `key:"call_timeout" default:"5s" doc:"Longest time of one transaction; then its attempts end with 503 unavailable and their keys may be repeated."`
	Refresh     time.Duration `key:"refresh" default:"1s" doc:"Age at which what is known of a sale is read again, at most 1s."`
}

// Fast says how the fast path works.
type Fast struct {
	// DefaultPath is never empty in a loaded configuration.
	DefaultPath string        `key:"default_path" doc:"What a new sale prefers that names no preferred_path: fast or direct. Empty is fast where redis.url is set, else direct."`
	Lanes       int           `key:"lanes" default:"1" doc:"Slices into which the stock of a sale is cut when it is first loaded into Redis; more than one spreads a sale over the masters of a cluster."`
	PreheatLead time.Duration `key:"preheat_lead" default:"5m" doc:"How long before its start a sale is loaded into Redis."`
	MaxQueued   int           `key:"max_queued" default:"100000" doc:"Most slips of a lane that wait for their judge; beyond it buyers are answered 503 busy."`
	Batch       int           `key:"batch" default:"2048" doc:"Most slips that are judged in one transaction."`
	TakeOver    time.Duration `key:"take_over" default:"5s" doc:"How long a worker may keep slips before another one judges them."`
	MaxWait     time.Duration `key:"max_wait" default:"20s" doc:"Longest time that a buyer may ask to wait for the judge (Prefer: wait); api.timeouts.request bounds it too."`
}

// Holds says how overdue orders are ended.
type Holds struct {
	SweepInterval time.Duration `key:"sweep_interval" default:"500ms" doc:"Pause between two looks for holds that have ended, at most 1s, so that units sell again within two seconds."`
	SweepBatch    int           `key:"sweep_batch" default:"256" doc:"Most orders that are ended in one transaction."`
}

// Log says what is logged.
type Log struct {
	Level  string `key:"level" default:"info" flag:"log-level" doc:"Least level that is written: debug, info, warn or error."`
	Format string `key:"format" default:"text" flag:"log-format" doc:"Form of a line: text or json."`
}

// Shutdown says how the server stops.
type Shutdown struct {
	Grace time.Duration `key:"grace" default:"20s" doc:"Longest time that accepted requests have to end after SIGTERM or SIGINT. New ones are refused at once."`
}
