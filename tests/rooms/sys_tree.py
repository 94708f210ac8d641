"""A made-up /sys: as much of it as tells of power."""

import os


class SysTree:
    """Attributes that can be changed as a test goes on."""

    def __init__(self, root):
        self.root = str(root)

    def write(self, path, content):
        """Put an attribute there, or change it in place, as the kernel does."""
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(f"{content}\n")

    def zone(self, zone, name, energy_uj, range_uj=262143328850):
        """Put a zone of RAPL there."""
        self.write(f"class/powercap/{zone}/name", name)
        self.write(f"class/powercap/{zone}/max_energy_range_uj", range_uj)
        self.count(zone, energy_uj)

    def count(self, zone, energy_uj):
        """Have a zone count on."""
        self.write(f"class/powercap/{zone}/energy_uj", energy_uj)

    def monitor(self, rails, *, address="1-0040", hwmon="hwmon3", name="ina3221"):
        """Put an INA3221 there as JetPack 5 shows it: rails as (label, millivolts, milliamperes), from channel 1 on."""
        folder = f"bus/i2c/devices/{address}/hwmon/{hwmon}"
        self.write(f"{folder}/name", name)
        for channel, (label, voltage_mv, current_ma) in enumerate(rails, 1):
            self.write(f"{folder}/in{channel}_label", label)
            self.write(f"{folder}/in{channel}_input", voltage_mv)
            self.write(f"{folder}/curr{channel}_input", current_ma)
        self.write(f"{folder}/in7_label", "sum of shunt voltages")
        self.write(f"{folder}/in7_input", 77)
        self.write(f"{folder}/curr7_input", 77)

    def old_monitor(self, rails, *, address="6-0040", device="iio:device0"):
        """Put an INA3221 there as JetPack 4 shows it: rails as (label, milliwatts)."""
        folder = f"bus/i2c/devices/{address}/{device}"
        self.write(f"{folder}/name", "ina3221x")
        for channel, (label, power_mw) in enumerate(rails):
            self.write(f"{folder}/rail_name_{channel}", label)
            self.write(f"{folder}/in_power{channel}_input", power_mw)

    def supply(self, supply, **attributes):
        """Put a battery or another supply there."""
        for name, content in attributes.items():
            self.write(f"class/power_supply/{supply}/{name}", content)
