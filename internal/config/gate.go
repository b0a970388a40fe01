package config

// On is the value of a key that is on.
const On = "on"

// The services that show captchas.
const (
	Turnstile = "turnstile"
	HCaptcha  = "hcaptcha"
	GeeTest   = "geetest"
)

func (g *Gate) check(found *problems) {
	const most = 10_000
	onOff("gate.mode", g.Mode, found)
	between("gate.instances", g.Instances, 1, most, found)
	g.Captcha.check(found)
}

func (c *Captcha) check(found *problems) {
	if c.Provider == "" {
		if c.SiteKey != "" || c.SecretFile != "" || len(c.Hostnames) > 0 {
			found.add("gate.captcha.provider", "", "no service is named", "use turnstile, hcaptcha or geetest, or leave out the other keys of gate.captcha")
		}
		return
	}
	oneOf("gate.captcha.provider", c.Provider, []string{Turnstile, HCaptcha, GeeTest}, found)
	if c.SiteKey == "" {
		found.add("gate.captcha.site_key", "", "pages cannot show the captcha without it", "copy it from your account at the service")
	}
	if c.SecretFile == "" {
		found.add("gate.captcha.secret_file", "", "solutions cannot be verified without the secret", "name a file that holds the secret key of your account")
	}
	if c.Provider != GeeTest && len(c.Hostnames) == 0 {
		found.add("gate.captcha.hostnames", "", "solutions from any page would be accepted", "name the hosts of your pages, such as shop.example")
	}
}
